package neighbourtest

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A watch is of a program and of the directory that it is in.

func holdInotify(h *held, path string) error {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	h.watch(fd)
	for _, name := range []string{path, filepath.Dir(path)} {
		if _, err := unix.InotifyAddWatch(fd, name, unix.IN_ALL_EVENTS); err != nil {
			return err
		}
	}
	return nil
}

// watch reads from a descriptor, until it is empty, what was seen.
func (h *held) watch(fd int) {
	h.later(func() { unix.Close(fd) })
	h.seen = append(h.seen, func() bool {
		seen, buffer := false, make([]byte, 64<<10)
		for {
			if n, err := unix.Read(fd, buffer); err != nil || n == 0 {
				return seen
			}
			seen = true
		}
	})
}

const (
	noticeSignal = 44
	ownSignal    = 64
	// noticeReads is DN_ACCESS and DN_MULTISHOT, which golang.org/x/sys has no names for.
	noticeReads = 0x80000001
	noticeTime  = 50 * time.Millisecond
)

// holdDnotify has the kernel send a signal for what is read in the directory.
func holdDnotify(h *held, path string) error {
	fd, err := h.holdFile(filepath.Dir(path))
	if err != nil {
		return err
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.Signal(noticeSignal))
	h.later(func() { signal.Stop(told) })
	for _, c := range [][2]uintptr{{unix.F_SETSIG, noticeSignal}, {unix.F_NOTIFY, noticeReads}} {
		if _, _, errno := unix.Syscall(unix.SYS_FCNTL, uintptr(fd), c[0], c[1]); errno != 0 {
			return errno
		}
	}
	h.seen = append(h.seen, func() bool {
		signalsHeard()
		select {
		case <-told:
			return true
		case <-time.After(noticeTime):
			return false
		}
	})
	return nil
}

// signalsHeard waits until this process hears signals that it is sent now: on a busy host
// it may have had no time for earlier ones.
func signalsHeard() {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.Signal(ownSignal))
	defer signal.Stop(heard)
	if unix.Kill(unix.Getpid(), ownSignal) == nil {
		<-heard
	}
}

// holdFanotify watches as anybody may since Linux 5.13.
func holdFanotify(h *held, path string) error {
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_REPORT_FID|unix.FAN_NONBLOCK|unix.FAN_CLOEXEC, 0)
	if err != nil {
		return err
	}
	h.watch(fd)
	return errors.Join(
		unix.FanotifyMark(fd, unix.FAN_MARK_ADD, unix.FAN_OPEN|unix.FAN_ACCESS, unix.AT_FDCWD, path),
		unix.FanotifyMark(fd, unix.FAN_MARK_ADD, unix.FAN_OPEN|unix.FAN_ACCESS|unix.FAN_EVENT_ON_CHILD, unix.AT_FDCWD, filepath.Dir(path)))
}
