package pty

import (
	"errors"
	"os"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// silent is set once a terminal was found to be of a kernel, gVisor's, that knows
// its other end by name only and tells nobody of a new size.
var silent atomic.Bool

// Tell tells the processes of a session that their terminal has a new size, where
// the kernel does not. Those that are not interested ignore it.
func Tell(session int) error {
	if !silent.Load() {
		return nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if sid, err := unix.Getsid(pid); err != nil || sid != session {
			continue // it may just have ended
		}
		if err := unix.Kill(pid, unix.SIGWINCH); err != nil && !errors.Is(err, unix.ESRCH) {
			return os.NewSyscallError("kill", err)
		}
	}
	return nil
}
