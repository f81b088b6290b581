package idrange

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestInside asks for the ids of a process with a map of its own.
func TestInside(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root maps more ids than its own")
	}
	cmd := exec.Command("sleep", "100")
	maps := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 200_000, Size: 1000}, {ContainerID: 2000, HostID: 7000, Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: maps, GidMappings: maps}
	if err := cmd.Start(); err != nil {
		t.Skipf("this host has no such user namespaces: %v", err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	inside, err := Inside(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if uid, gid, err := inside(200_999, 7000); uid != 999 || gid != 2000 || err != nil {
		t.Errorf("%d, %d, %v", uid, gid, err)
	}
	for _, id := range []uint32{0, 199_999, 201_000, 7001} {
		if uid, _, err := inside(id, 200_000); err == nil {
			t.Errorf("%d is %d", id, uid)
		}
	}
}
