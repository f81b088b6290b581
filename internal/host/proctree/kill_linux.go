package proctree

import (
	"errors"
	"os"
	"syscall"
)

// Kill kills one process. Errors: os.ErrProcessDone if there is none.
func Kill(pid int) error { return done(syscall.Kill(pid, syscall.SIGKILL)) }

// KillGroup kills the process group that a process leads, as one does that was
// started with Setpgid or Setsid; it is what the Cancel of an exec.Cmd wants.
// Errors: os.ErrProcessDone if nobody is left in it.
func KillGroup(leader int) error { return done(syscall.Kill(-leader, syscall.SIGKILL)) }

// Exists says whether a process has this number, be it one that has ended and is
// not waited for.
func Exists(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func done(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return os.NewSyscallError("kill", err)
}
