package unprivtest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// failVariable makes the tests below end badly, each in its own way.
const failVariable = "AETHER_UNPRIV_TEST_FAIL"

func TestAsOrdinaryUser(t *testing.T) { AsOrdinaryUser(t, []string{"-test.run=^TestWhoAmI$"}) }

func TestAsRootWithoutRights(t *testing.T) {
	AsRootWithoutRights(t, []string{"-test.run=^TestRights$"})
}

// TestRights wants of a root without rights that it can neither mount nor make a
// control group.
func TestRights(t *testing.T) {
	if os.Getenv(withoutRightsVariable) == "" {
		t.Skip("TestAsRootWithoutRights runs this")
	}
	if os.Geteuid() != 0 || Privileged() {
		t.Errorf("user %d has rights: %v", os.Geteuid(), Privileged())
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "none", t.TempDir()).CombinedOutput(); err == nil {
		t.Errorf("it mounts: %s", out)
	}
	if err := os.Mkdir("/sys/fs/cgroup/aether-test", 0o755); err == nil {
		t.Error("it makes a control group")
	}
}

func TestWhoAmI(t *testing.T) {
	t.Run("inner", func(t *testing.T) {
		if os.Geteuid() == 0 {
			t.Skip("TestAsOrdinaryUser runs this")
		}
	})
	if id := os.Geteuid(); id != 0 && id != ID {
		t.Skipf("user %d runs these tests", id)
	}
}

func TestPasses(t *testing.T) { t.Log("noise") }

func TestFails(t *testing.T) {
	how := os.Getenv(failVariable)
	if how == "" {
		t.Skip("TestOutcome runs this")
	}
	t.Run("quiet", func(t *testing.T) { t.Parallel(); t.Log("noise") })
	t.Run("loud", func(t *testing.T) {
		t.Parallel()
		if how == "crash" {
			panic("the cause")
		}
		t.Errorf("the cause\nand more of it")
	})
	t.Run("skipped", func(t *testing.T) { t.Skip("a fact of the host") })
}

// TestOutcome reads what real runs print.
func TestOutcome(t *testing.T) {
	for how, want := range map[string]string{"fail": "--- FAIL: TestFails/loud\n", "crash": "panic: the cause"} {
		cmd := exec.Command("/proc/self/exe", "-test.v", "-test.run=^TestFails$|^TestPasses$")
		cmd.Env = append(os.Environ(), failVariable+"="+how)
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("%s: the run succeeded:\n%s", how, out)
		}
		got := read(out).failure()
		if !strings.Contains(got, want) || !strings.Contains(got, "the cause") || strings.Contains(got, "noise") {
			t.Errorf("%s: from\n%s\nthis is told:\n%s", how, out, got)
		}
		if how == "fail" && !strings.Contains(got, "and more of it") {
			t.Errorf("only the first line is told:\n%s", got)
		}
		if skips := read(out).skips(); !strings.Contains(skips, "TestFails/skipped: ordinary_linux_test.go:") && how == "fail" || strings.Contains(skips, "TestPasses") {
			t.Errorf("%s: skipped are %q", how, skips)
		}
	}
}

func TestFailureIsBounded(t *testing.T) {
	long := "=== RUN   TestLong\nfirst\n" + strings.Repeat("    middle\n", 10*mostLines) + "last\n--- FAIL: TestLong (0.00s)\nFAIL\n"
	got := read([]byte(long)).failure()
	if lines := strings.Count(got, "\n"); lines > mostLines+2 || !strings.Contains(got, "first") || !strings.Contains(got, "last") {
		t.Errorf("%d lines are told:\n%s", lines, got)
	}
	if got := read([]byte("killed\n")).failure(); !strings.Contains(got, "killed") {
		t.Errorf("a run without tests is told as %q", got)
	}
}
