package netdevtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const againVariable = "AETHER_TEST_AGAIN"

// Again runs the calling test again in net and mount namespaces of its own, with other
// contents in the place of some files, and says whether this is that.
func Again(t *testing.T, files map[string]string) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root has net and mount namespaces of its own that are not those of a user namespace")
	}
	if dir := os.Getenv(againVariable); dir != "" {
		if err := settle(dir, files); err != nil {
			t.Fatal(err)
		}
		return true
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v=true")
	cmd.Env = append(os.Environ(), againVariable+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	return false
}

func settle(dir string, files map[string]string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	for path, text := range files {
		file := filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(file, path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", path, err)
		}
	}
	return prepare(nil)
}
