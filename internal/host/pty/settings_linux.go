package pty

import (
	"os"

	"golang.org/x/sys/unix"
)

// Settings are how a terminal behaves, and its size.
type Settings struct {
	Modes unix.Termios `json:"modes"`
	Size  unix.Winsize `json:"size"`
}

// Read reads the settings of a terminal, by its master.
func Read(master *os.File) (s Settings, err error) {
	err = control(master, func(fd int) error {
		modes, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err != nil {
			return os.NewSyscallError("read settings of terminal", err)
		}
		size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err != nil {
			return os.NewSyscallError("read size of terminal", err)
		}
		s = Settings{*modes, *size}
		return nil
	})
	return s, err
}

// Apply gives a terminal settings, by its master.
func (s Settings) Apply(master *os.File) error {
	return control(master, func(fd int) error {
		if err := unix.IoctlSetTermios(fd, unix.TCSETS, &s.Modes); err != nil {
			return os.NewSyscallError("set up terminal", err)
		}
		return os.NewSyscallError("resize terminal", unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &s.Size))
	})
}
