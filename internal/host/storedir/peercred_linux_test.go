package storedir

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

func listen(t *testing.T) (OwnListener, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "storedir")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := OwnListener{l}.Accept()
			if err != nil {
				return
			}
			io.WriteString(conn, "welcome")
			conn.Close()
		}
	}()
	return OwnListener{l}, path
}

func connect(t *testing.T, path string, cred *syscall.Credential) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	if cred != nil {
		// Another user may not reach the binary that go test has built.
		cmd.Path = copyOf(t, self, filepath.Dir(path))
	}
	cmd.Env = append(os.Environ(), connectAs+"="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	out, err := cmd.Output()
	if err != nil && cred == nil {
		t.Fatal(err)
	}
	return string(out)
}

func copyOf(t *testing.T, file, dir string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "other")
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOwn(t *testing.T) {
	_, path := listen(t)
	if got := connect(t, path, nil); got != "welcome" {
		t.Errorf("this user is told %q", got)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	if got := connect(t, path, &syscall.Credential{Uid: 65534, Gid: 65534}); got != "" {
		t.Errorf("another user is told %q", got)
	}
	if got := connect(t, path, nil); got != "welcome" {
		t.Errorf("after that, this user is told %q", got)
	}
}
