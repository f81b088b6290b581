package spawn

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNamespace: the namespace is the process's, by its descriptor and by its number.
func TestNamespace(t *testing.T) {
	s := newScript(t)
	execute(s, "/bin/sleep", "60")
	p, err := startAndAwait(t, s, unix.CLONE_NEWUSER|unix.CLONE_NEWNET)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		t.Skipf("this user may not make namespaces: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []Namespace{UserNamespace, {UserNamespace.name, 0}} {
		var got, want unix.Stat_t
		fd, err := p.Namespace(kind)
		if err != nil {
			t.Error(err)
			continue
		}
		err = errors.Join(unix.Fstat(fd, &got), unix.Stat(fmt.Sprintf("/proc/%d/ns/%s", p.Pid(), kind.name), &want))
		if err = errors.Join(err, unix.Close(fd)); err != nil || got.Ino != want.Ino || got.Ino == 0 {
			t.Errorf("%+v: namespace %d, is in %d: %v", kind, got.Ino, want.Ino, err)
		}
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if fd, err := p.Namespace(UserNamespace); !errors.Is(err, unix.ESRCH) {
		t.Errorf("of a process that was reaped: %d, %v", fd, err)
	}
}
