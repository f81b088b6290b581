package pty

import (
	"os"

	"golang.org/x/sys/unix"
)

// Hide has the terminal of a descriptor not show what is typed, of which a line at a time can
// be read, until show has it behave as before.
func Hide(fd int) (show func() error, err error) {
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, os.NewSyscallError("read settings of terminal", err)
	}
	hidden := *before
	hidden.Lflag = hidden.Lflag&^unix.ECHO | unix.ICANON | unix.ISIG
	hidden.Iflag |= unix.ICRNL
	set := func(modes *unix.Termios) error {
		return os.NewSyscallError("set up terminal", unix.IoctlSetTermios(fd, unix.TCSETS, modes))
	}
	return func() error { return set(before) }, set(&hidden)
}
