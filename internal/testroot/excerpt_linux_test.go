package testroot

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aether/sandbox"
)

func TestProgramsRunInTheExcerpt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can change the root directory")
	}
	dir := t.TempDir()
	if err := Make(dir, []string{"sh", "sort", "id"}, []string{"/etc/os-release"}); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("chroot", dir, "/bin/sh", "-c", "printf 'b\\na\\n' | sort; id -un; test -s /etc/os-release").CombinedOutput()
	if got := strings.Fields(string(out)); err != nil || strings.Join(got, " ") != "a b root" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "etc/shadow")); err == nil {
		t.Error("more was taken than asked for")
	}
}

func TestMissingProgramsAreNotFound(t *testing.T) {
	for _, c := range []struct{ programs, files []string }{
		{programs: []string{"no-such-program"}},
		{files: []string{"/no/such/file"}},
	} {
		if err := Make(t.TempDir(), c.programs, c.files); sandbox.ClassOf(err) != sandbox.NotFound {
			t.Errorf("%v: %v", c, err)
		}
	}
}
