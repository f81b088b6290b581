package spawn

import (
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Process is a child that has executed its program.
type Process struct {
	pid   int
	pidfd *os.File

	wait   sync.Once
	status Status
	err    error
}

// Status is how a process ended.
type Status struct {
	Code   int            // exit code, if Signal is 0
	Signal syscall.Signal // what killed it, or 0
	// MaxRSS is the most memory, in bytes, that the process or one of its reaped
	// children held. CPU is what they consumed together.
	MaxRSS int64
	CPU    time.Duration
}

// Pid is the process id as this process sees it.
func (p *Process) Pid() int { return p.pid }

// Signal sends a signal; it can never reach another process that got the same
// number later. A process that has ended is ESRCH.
func (p *Process) Signal(sig syscall.Signal) error {
	raw, err := p.pidfd.SyscallConn()
	if err != nil {
		return unix.ESRCH
	}
	var sent error
	if err := raw.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); err != nil {
		return unix.ESRCH
	}
	return sent
}

// Fd runs fn with the process's descriptor, which stays open meanwhile. A process
// that has ended is ESRCH.
func (p *Process) Fd(fn func(pidfd int)) error {
	raw, err := p.pidfd.SyscallConn()
	if err != nil || raw.Control(func(fd uintptr) { fn(int(fd)) }) != nil {
		return unix.ESRCH
	}
	return nil
}

// Near runs fn with a copy of the process's descriptor that scripts can name: it is not
// aside, and at least first. A process that has ended is ESRCH.
func (p *Process) Near(first int, fn func(pidfd int) error) error {
	var err error
	gone := p.Fd(func(pidfd int) {
		var near int
		if near, err = unix.FcntlInt(uintptr(pidfd), unix.F_DUPFD_CLOEXEC, first); err != nil {
			err = os.NewSyscallError("fcntl", err)
			return
		}
		defer unix.Close(near)
		err = fn(near)
	})
	if gone != nil {
		return gone
	}
	return err
}

// Wait waits for the end and reaps. It may be called by many.
func (p *Process) Wait() (Status, error) {
	p.wait.Do(func() {
		p.status, p.err = p.reap()
		p.pidfd.Close()
	})
	return p.status, p.err
}

func (p *Process) reap() (status Status, err error) {
	raw, err := p.pidfd.SyscallConn()
	if err != nil {
		return status, err
	}
	readErr := raw.Read(func(fd uintptr) (done bool) {
		status, done, err = tryReap(int(fd))
		return done
	})
	if readErr == nil {
		return status, err
	}
	// A descriptor that the poller did not take: wait in a thread.
	var ended bool
	for !ended && err == nil {
		status, ended, err = reapPid(p.pid)
	}
	return status, err
}

// childInfo is the part of siginfo_t that waitid fills for a child.
type childInfo struct {
	signo, errno, code int32
	_                  int32
	pid                int32
	uid                uint32
	status             int32
	_                  [100]byte
}

// tryReap reaps a process that has ended. It looks before it takes: of a process
// that this program traces, a wait takes the stops too, which are the tracer's.
func tryReap(pidfd int) (Status, bool, error) {
	_, ended, err := waitid(unix.P_PIDFD, pidfd, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL)
	if !ended || err != nil {
		return Status{}, ended, err
	}
	return waitid(unix.P_PIDFD, pidfd, unix.WEXITED|unix.WNOHANG|unix.WALL)
}

func reapPid(pid int) (Status, bool, error) {
	return waitid(unix.P_PID, pid, unix.WEXITED|unix.WALL)
}

func waitid(idType, id, options int) (Status, bool, error) {
	var info childInfo
	var usage unix.Rusage
	for {
		_, _, errno := syscall.Syscall6(unix.SYS_WAITID, uintptr(idType), uintptr(id),
			uintptr(unsafe.Pointer(&info)), uintptr(options), uintptr(unsafe.Pointer(&usage)), 0)
		switch errno {
		case 0:
			const trapped = 4 // CLD_TRAPPED
			return statusOf(info, usage), info.pid != 0 && info.code != trapped, nil
		case unix.EINTR:
		case unix.EAGAIN: // a non-blocking pidfd whose process lives
			return Status{}, false, nil
		default:
			return Status{}, true, os.NewSyscallError("waitid", errno)
		}
	}
}

func statusOf(info childInfo, usage unix.Rusage) Status {
	const exited = 1 // CLD_EXITED
	status := Status{
		MaxRSS: usage.Maxrss << 10,
		CPU:    time.Duration(usage.Utime.Nano() + usage.Stime.Nano()),
	}
	if info.code == exited {
		status.Code = int(info.status)
	} else {
		status.Signal = syscall.Signal(info.status)
	}
	return status
}
