package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aether/sandbox"
)

func TestParse(t *testing.T) {
	for args, field := range map[string]string{
		"": "", "-host debian-12 -way root,user -steps first,leaks": "", "-short -json": "",
		"-host windows": "host", "-way sideways": "way", "-steps run": "steps", "-short -way docker": "way", "-unknown": "flags", "rest": "flags",
	} {
		_, err := parse(strings.Fields(args), io.Discard)
		e, _ := err.(*sandbox.Error)
		if field == "" && err != nil || field != "" && (e == nil || e.Field != field) {
			t.Errorf("%q: %v", args, err)
		}
	}
	o, err := parse([]string{"-short", "-host", "debian-12"}, io.Discard)
	if err != nil || len(o.hosts) != 1 || slices.Contains(o.hosts[0].root.packages, "docker.io") || slices.Contains(o.steps, stepOwn) {
		t.Errorf("%+v, %v", o, err)
	}
}

const targets = `http://mirror.example/debian-security/ bookworm-security main Debian
http://packages.example/apt/ bookworm main Somebody Else
http://packages.example/node/ nodistro main
http://mirror.example/debian/ bookworm-updates main Debian
http://mirror.example/debian/ bookworm contrib Debian
http://mirror.example/debian/ bookworm main Debian
http://other.example/debian/ bookworm main Debian
`

func TestMainArchive(t *testing.T) {
	for _, c := range []struct{ targets, codename, want string }{
		{targets, "bookworm", "http://mirror.example/debian/"},
		{"http://mirror.example/debian/ trixie main\n", "trixie", "http://mirror.example/debian/"}, // before apt-get update
		{targets, "trixie", ""},
		{"--help bookworm main Debian\n", "bookworm", ""}, // would be an option of debootstrap's
		{"", "bookworm", ""},
		{"garbage\n\n a b\n", "bookworm", ""},
	} {
		if got := mainArchive(c.targets, c.codename); got != c.want {
			t.Errorf("%q of %q: %q, want %q", c.codename, c.targets, got, c.want)
		}
	}
}

func TestDebianCodename(t *testing.T) {
	for release, want := range map[string]string{
		"ID=debian\nVERSION_CODENAME=bookworm\n":              "bookworm",
		"VERSION_CODENAME=\"trixie\"\nID=\"debian\"\n":        "trixie",
		"ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\n": "",
		"ID=debian\n": "",
		"":            "",
	} {
		if got, ok := debianCodename(release); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %v", release, got, ok)
		}
	}
}

func TestMirrorIsWhatTheUserSays(t *testing.T) {
	t.Setenv(mirrorVariable, "http://mirror.example/debian")
	if got, err := mirror(t.Context()); err != nil || got != "http://mirror.example/debian" {
		t.Errorf("%q, %v", got, err)
	}
}

// What a killed run leaves is not taken for a root, and goes away.
func TestHalfMadeRootsAreNone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("roots are made by root alone")
	}
	t.Setenv(mirrorVariable, "http://127.0.0.1:1/debian")
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"7", "7/entry", "7/entry/stock"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "7.lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if entry, err := (rootCache{dir: dir, progress: io.Discard}).ensure(ctx, bookworm.small()); err == nil {
		t.Errorf("%s was made of nothing", entry)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v are left (%v)", left, err)
	}
}

func TestKernelLine(t *testing.T) {
	h, _ := findHost("debian-12-nouserns")
	emulated, real := machine{host: h}.kernelLine(), machine{host: h, kvm: true}.kernelLine()
	for _, want := range []string{"console=ttyS0 ", "root=LABEL=" + rootLabel, "sysctl.kernel.unprivileged_userns_clone=0"} {
		if !strings.Contains(emulated, want) || !strings.Contains(real, want) {
			t.Errorf("%q is not in %q or %q", want, emulated, real)
		}
	}
	if strings.Contains(real, "nohz=off") || !strings.Contains(emulated, "nohz=off") {
		t.Errorf("%q, %q", emulated, real)
	}
}

func TestEveryStepIsDone(t *testing.T) {
	for _, step := range steps {
		if steppers[step] == nil {
			t.Errorf("nothing does %s", step)
		}
	}
}

func TestCensusNoticesWhatIsNew(t *testing.T) {
	before, err := takeCensus()
	if err != nil {
		t.Fatal(err)
	}
	made, err := os.CreateTemp("", "hosttest-")
	if err != nil {
		t.Fatal(err)
	}
	made.Close()
	file := made.Name()
	defer os.Remove(file)
	now, err := takeCensus()
	if err != nil {
		t.Fatal(err)
	}
	if grown := now.grown(before); filepath.Dir(file) == "/tmp" && !slices.Contains(grown, "file "+file) {
		t.Errorf("%q", grown)
	}
	if grown := before.grown(before); len(grown) > 0 {
		t.Errorf("%q since now", grown)
	}
}

func TestMiddleOut(t *testing.T) {
	lines := strings.Split("a b c d e f g", " ")
	if got := strings.Join(middleOut(lines, 4), " "); got != "a b ... 3 lines ... f g" {
		t.Errorf("%q", got)
	}
	if got := middleOut(lines, 7); len(got) != 7 {
		t.Errorf("%q", got)
	}
}
