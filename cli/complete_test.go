package cli

import (
	"strings"
	"testing"
)

// offered asks as a shell's script does and gives the words without their
// descriptions; the last line is the directive.
func offered(t *testing.T, args ...string) string {
	t.Helper()
	got := run(t, nil, append([]string{"__complete"}, args...)...)
	if got.status != 0 {
		t.Fatalf("%q: status %d, stderr %q", args, got.status, got.stderr)
	}
	var words []string
	for line := range strings.Lines(got.stdout) {
		word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestCompletion(t *testing.T) {
	for _, c := range []struct{ typed, want string }{
		{"ra", "rank :4"},
		{"help pro", "profile :4"},
		{"profile c", "cloud-hypervisor cell crun :4"},
		{"profile BW", "bwrap :4"},
		{"profile docker c", ":4"},
		{"compare docker q", "qemu-kvm :4"},
		{"compare docker kata q", ":4"},
		{"rank --by is", "isolation :4"},
		{"rank --by f", "fitness :4"},
		{"rank --weight s", "start-latency= snapshotting= :6"},
		{"rank --weight isolation=3,d", "isolation=3,density= :6"},
		{"rank --weight f", ":6"},
		{"rank --need f", "fitness>= :6"},
		{"rank --co", "--core :4"},
		{"completion b", "bash :4"},
	} {
		if got := offered(t, strings.Fields(c.typed)...); got != c.want {
			t.Errorf("%s: offered %q, want %q", c.typed, got, c.want)
		}
	}
	if got := offered(t, "compare", ""); !strings.HasPrefix(got, "aethervm firecracker ") || !strings.HasSuffix(got, " utm :4") {
		t.Errorf("offered %q", got)
	}
}

func TestCompletionScripts(t *testing.T) {
	for shell := range completionScripts {
		if out := succeed(t, "completion", shell); !strings.Contains(out, "__complete") {
			t.Errorf("the script for %s asks nothing:\n%s", shell, out)
		}
	}
}
