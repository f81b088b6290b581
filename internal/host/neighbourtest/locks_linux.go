package neighbourtest

import (
	"errors"
	"os/signal"

	"golang.org/x/sys/unix"
)

// holdFile opens a file for as long as something of it is held.
func (h *held) holdFile(path string) (int, error) {
	fd, err := opened(path, 0)
	if err == nil {
		h.later(func() { unix.Close(fd) })
	}
	return fd, err
}

func holdFlock(h *held, path string) error {
	fd, err := h.holdFile(path)
	if err != nil {
		return err
	}
	return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
}

func meetFlock(path string) error {
	fd, err := opened(path, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB)
}

func holdLock(command int) func(*held, string) error {
	return func(h *held, path string) error {
		fd, err := h.holdFile(path)
		if err != nil {
			return err
		}
		return unix.FcntlFlock(uintptr(fd), command, &unix.Flock_t{Type: unix.F_RDLCK, Len: 1})
	}
}

func meetLock(command int) func(string) error {
	return func(path string) error {
		fd, err := opened(path, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		lock := unix.Flock_t{Type: unix.F_WRLCK, Len: 1}
		if err := unix.FcntlFlock(uintptr(fd), command, &lock); err != nil {
			return err
		}
		if lock.Type != unix.F_UNLCK {
			return errMet
		}
		return nil
	}
}

func holdLease(h *held, path string) error {
	fd, err := h.holdFile(path)
	if err != nil {
		return err
	}
	signal.Ignore(unix.SIGIO)
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK)
	return err
}

// meetLease does not wait: whoever does waits for 45 seconds.
func meetLease(path string) error {
	fd, err := opened(path, 0)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errMet
	}
	if err != nil {
		return err
	}
	return unix.Close(fd)
}
