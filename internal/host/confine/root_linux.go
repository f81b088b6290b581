package confine

import (
	"errors"
	"fmt"
	"os"

	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// keep has PID 1 hold a directory for us. Nobody inside can use PID 1's descriptors: it
// cannot be dumped (see spawn.Pause), and processes under landlock trace nobody.
func (s script) keep(dir string, fd uintptr) {
	open := s.Call(unix.SYS_OPENAT, here, s.String(dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	keep := s.Call(unix.SYS_DUP3, 0, fd, 0)
	open.Into(keep, 0)
}

// keepRoot has PID 1 hold the cell's root, where that is at the end.
func (s script) keepRoot() { s.keep("/", rootFd) }

// Root opens the cell's root directory, as its processes see it.
func (c *Cell) Root() (file *os.File, err error) {
	gone := c.init.Fd(func(pidfd int) {
		if file, err = heldRoot(pidfd); errors.Is(err, unix.EPERM) {
			file, err = c.rootByName(pidfd)
		}
	})
	if err = errors.Join(gone, err); err != nil {
		return nil, &sandbox.Error{Class: sandbox.NotFound, Op: "confine: open the cell's root", Err: err}
	}
	return file, nil
}

// heldRoot takes the root that PID 1 holds. To find it by way of /proc, where the kernel
// makes what it shows of a process anew each time, takes ten times as long.
func heldRoot(pidfd int) (*os.File, error) {
	fd, err := unix.PidfdGetfd(pidfd, rootFd, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_getfd", err)
	}
	return os.NewFile(uintptr(fd), "/"), nil
}

// rootByName is for hosts where nobody may trace another (kernel.yama.ptrace_scope is 3),
// and so takes nothing of his either.
func (c *Cell) rootByName(pidfd int) (*os.File, error) {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/root", c.Pid()), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "the root of PID 1", Err: err}
	}
	// The number may have become another process's if the cell has ended, and only then:
	// PID 1 is reaped by Wait alone.
	if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err != nil {
		return nil, errors.Join(os.NewSyscallError("pidfd_send_signal", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "/"), nil
}
