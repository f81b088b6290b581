package isolationprobe

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// childInUserNamespace starts this program, which does nothing, in a user namespace.
func childInUserNamespace() error {
	cmd := exec.Command(self(), ModeWait)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Wait()
}

// self is this program's own path.
func self() string {
	if path, err := os.Executable(); err == nil {
		return path
	}
	return os.Args[0]
}
