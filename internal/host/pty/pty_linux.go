package pty

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Open gives the other end of a terminal whose /dev/ptmx was opened as master:
// the end that a process reads and writes. The master should be opened with
// O_NONBLOCK, so that a Close ends a Read.
func Open(master *os.File) (slave *os.File, err error) {
	err = control(master, func(fd int) error {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return os.NewSyscallError("unlock terminal", err)
		}
		// TIOCGPTPEER goes by the descriptor, so that it reaches the right
		// instance of devpts whatever the paths of this process are.
		// Asked to close the descriptor on exec, the kernel would say so of every
		// other descriptor of the terminal in /proc, where forks read it.
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY)
		if errno != 0 {
			silent.Store(errno == unix.ENOTTY)
			return os.NewSyscallError("open terminal", errno)
		}
		unix.CloseOnExec(int(peer))
		slave = os.NewFile(peer, "terminal")
		return nil
	})
	return slave, err
}

// SetSize tells the processes on a terminal how big it is.
func SetSize(end *os.File, cols, rows uint16) error {
	return control(end, func(fd int) error {
		return os.NewSyscallError("resize terminal", unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: cols, Row: rows}))
	})
}

// control avoids File.Fd, which would make the descriptor block.
func control(f *os.File, fn func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if conn.Control(func(fd uintptr) { inner = fn(int(fd)) }) != nil {
		return os.ErrClosed // the only reason, for which there is no other name
	}
	return inner
}

// Number is which terminal of its devpts a master belongs to.
func Number(master *os.File) (n int, err error) {
	err = control(master, func(fd int) (err error) {
		n, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		return os.NewSyscallError("number of terminal", err)
	})
	return n, err
}

// Foreground is the process group that a terminal listens to, as numbered here;
// 0 if it is none.
func Foreground(master *os.File) (group int, err error) {
	err = control(master, func(fd int) (err error) {
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return os.NewSyscallError("foreground of terminal", err)
	})
	return group, err
}
