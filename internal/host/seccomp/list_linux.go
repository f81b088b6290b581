package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// NetworkCalls are what a Go program needs that reads and writes descriptors, makes
// connections of TCP and UDP, takes some by sockets that it was given, and asks for its
// host's addresses. It opens no file.
var NetworkCalls = []uint32{
	// memory, threads, signals and time: the runtime's
	unix.SYS_BRK, unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MADVISE, unix.SYS_CLONE, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_FUTEX,
	unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_TGKILL, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK,
	unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_RESTART_SYSCALL, unix.SYS_GETRANDOM,
	// descriptors
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_CLOSE, unix.SYS_FCNTL, unix.SYS_FSTAT, unix.SYS_DUP3, unix.SYS_PIPE2,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2,
	// sockets
	unix.SYS_SOCKET, unix.SYS_BIND, unix.SYS_CONNECT, unix.SYS_SHUTDOWN, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_GETSOCKOPT, unix.SYS_SETSOCKOPT,
	unix.SYS_SENDTO, unix.SYS_RECVFROM, unix.SYS_SENDMSG, unix.SYS_RECVMSG, unix.SYS_ACCEPT4,
}

// MachineCalls are what a Go program needs that runs one machine: it reads and writes
// descriptors that it was given, maps what was handed to it, and asks KVM.
var MachineCalls = []uint32{
	// memory, threads, signals and time: the runtime's
	unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_CLONE, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_FUTEX, unix.SYS_SCHED_YIELD,
	unix.SYS_SCHED_GETAFFINITY, unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_TGKILL, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN,
	unix.SYS_SIGALTSTACK, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_RESTART_SYSCALL, unix.SYS_GETRANDOM,
	// how long its files may be, said once
	unix.SYS_PRLIMIT64,
	// descriptors
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_LSEEK, unix.SYS_FTRUNCATE, unix.SYS_CLOSE, unix.SYS_FCNTL, unix.SYS_FSTAT, unix.SYS_IOCTL,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2,
	// sockets that are handed to it
	unix.SYS_SENDMSG, unix.SYS_RECVMSG, unix.SYS_SHUTDOWN, unix.SYS_GETSOCKOPT, unix.SYS_SETSOCKOPT, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME,
}

// Only is a filter that refuses every other call, as one that does not exist, and checks
// the arguments of those that Checks names.
func Only(calls []uint32) ([]byte, error) { return only(calls, checks) }

// OnlyRequests is Only, with the requests that may be made by ioctl, and clone for threads
// alone.
func OnlyRequests(calls, requests []uint32) ([]byte, error) {
	mine := slices.Clone(checks)
	at := slices.IndexFunc(mine, func(c check) bool { return c.nr == unix.SYS_IOCTL })
	mine[at].rules = func(a *assembler) {
		a.loadArg(1)
		for _, request := range requests {
			a.ifEqual(request, allow)
		}
		a.ret(eperm)
	}
	at = slices.IndexFunc(mine, func(c check) bool { return c.nr == unix.SYS_CLONE })
	mine[at].rules = func(a *assembler) {
		a.loadArg(0)
		a.ifAnyBit(NewNamespaces, eperm)
		a.ifAnyBit(unix.CLONE_THREAD, allow)
		a.ret(eperm)
	}
	return only(calls, slices.DeleteFunc(mine, func(c check) bool { return !slices.Contains(calls, c.nr) }))
}

func only(calls []uint32, checks []check) ([]byte, error) {
	table := map[uint32]int{}
	for _, nr := range calls {
		table[nr] = int(allow)
	}
	for i, c := range checks {
		if _, listed := table[c.nr]; listed {
			table[c.nr] = -1 - i
		}
	}
	program, err := build(table, checks)
	if err != nil {
		return nil, err
	}
	return asBytes(program)
}
