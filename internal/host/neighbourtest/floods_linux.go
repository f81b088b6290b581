package neighbourtest

import (
	"errors"
	"fmt"
	"os/exec"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Floods take what the kernel counts for a user or for the whole host, as much as
// they are given, up to a number that is a little more than the kernel's defaults.
// What has defaults in the hundreds of thousands (watches of inotify and of epoll) is
// left out: it is counted for the same users as instances and pages of pipes are.

const floodTime = 3 * time.Second

// flood takes one after another until there is no more, which is no failure unless
// there was none at all.
func (h *held) flood(most int, take func(i int) error) error {
	began := time.Now()
	for i := 0; i < most && time.Since(began) < floodTime; i++ {
		if err := take(i); err != nil && h.count == 0 {
			return err
		} else if err != nil {
			return nil
		}
		h.count++
	}
	return nil
}

func (h *held) holdFd(fd int, err error) error {
	if err == nil {
		h.later(func() { unix.Close(fd) })
	}
	return err
}

func floodInstances(h *held, _ string) error {
	return h.flood(1024, func(int) error { return h.holdFd(unix.InotifyInit1(unix.IN_CLOEXEC)) })
}

func meetInstances(string) error { return closed(unix.InotifyInit1(unix.IN_CLOEXEC)) }

func closed(fd int, err error) error {
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

const (
	pipeSize = 64 << 10
	mostPipe = 1 << 20 // what anybody may enlarge one to, by default
)

// floodPipes enlarges pipes until no page is left, and then makes small ones.
func floodPipes(h *held, _ string) error {
	enlarged := h.flood(256, func(int) error {
		_, err := h.pipe(mostPipe)
		return err
	})
	if enlarged != nil {
		return enlarged
	}
	return h.flood(64, func(int) error {
		size, err := h.pipe(0)
		if err == nil && size < pipeSize {
			err = errMet
		}
		return err
	})
}

// pipe makes a pipe, and enlarges it if it is given a size.
func (h *held) pipe(enlarge int) (size int, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return 0, err
	}
	h.later(func() { unix.Close(ends[0]); unix.Close(ends[1]) })
	if enlarge > 0 {
		if _, err := unix.FcntlInt(uintptr(ends[0]), unix.F_SETPIPE_SZ, enlarge); err != nil {
			return 0, err
		}
	}
	return unix.FcntlInt(uintptr(ends[0]), unix.F_GETPIPE_SZ, 0)
}

// meetPipes: a user who has too many pages gets pipes of two.
func meetPipes(string) error {
	var h held
	defer h.free()
	size, err := h.pipe(0)
	if err == nil && size < pipeSize {
		err = errors.Join(errMet, fmt.Errorf("a pipe has %d bytes", size))
	}
	return err
}

const (
	perMessage = 253 // SCM_MAX_FD
	fewFiles   = 512 // with so many open files, more than that must not be on their way
)

func floodInFlight(h *held, _ string) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	h.later(func() { unix.Close(pair[0]); unix.Close(pair[1]) })
	many := make([]int, perMessage)
	for i := range many {
		many[i] = pair[0]
	}
	return h.flood(5, func(int) error {
		return unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(many...), nil, unix.MSG_DONTWAIT)
	})
}

// meetInFlight sends a descriptor with the right to have a few open: the kernel allows
// as many on their way, of the same user's together.
func meetInFlight(string) error {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: min(fewFiles, was.Max), Max: was.Max}); err != nil {
		return err
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &was)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	return unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(pair[1]), nil, unix.MSG_DONTWAIT)
}

// floodQueues makes queues of the size that they have by default.
func floodQueues(h *held, name string) error {
	return h.flood(300, func(i int) error { return h.holdQueueOf(fmt.Sprint(name, i), 10, 8192) })
}

func meetQueues(name string) error {
	var h held
	defer h.free()
	return h.holdQueueOf(fmt.Sprint(name, "-one-of-", unix.Getpid()), 10, 8192)
}

// floodProcesses starts processes that do nothing.
func floodProcesses(h *held, _ string) error {
	return h.flood(128, func(int) error {
		cmd := exec.Command("sleep", "300")
		cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
		if err := cmd.Start(); err != nil {
			return err
		}
		h.later(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return nil
	})
}

func meetProcesses(string) error { return exec.Command("env").Run() }

func floodAIO(h *held, _ string) error {
	return h.flood(64, func(int) error {
		context, err := setupAIO(2048)
		if err == nil {
			h.later(func() { unix.Syscall(unix.SYS_IO_DESTROY, context, 0, 0) })
		}
		return err
	})
}

func meetAIO(string) error {
	context, err := setupAIO(1)
	if err == nil {
		unix.Syscall(unix.SYS_IO_DESTROY, context, 0, 0)
	}
	return err
}

func setupAIO(requests uintptr) (context uintptr, err error) {
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, requests, uintptr(unsafe.Pointer(&context)), 0); errno != 0 {
		return 0, errno
	}
	return context, nil
}
