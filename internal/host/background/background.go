//go:build unix

// Package background starts programs that outlive the one that starts them, as a daemon
// that a command needs. What such a program is for, and how it ends, is not its business.
package background

import (
	"fmt"
	"os/exec"
	"syscall"
)

// Start starts a program in a session of its own, so that it outlives our terminal, in
// the root directory, so that it keeps no other in use, and with the descriptors that the
// command names alone: a pipe or a lock that we were given would be held for as long as it
// lives.
func Start(cmd *exec.Cmd) error {
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := closeInherited(); err != nil {
		return fmt.Errorf("background: %w", err)
	}
	return cmd.Start()
}
