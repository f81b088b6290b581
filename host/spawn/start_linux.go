package spawn

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Futex operations, not private: the kernel's own wake-up is not either.
const (
	futexWait       = 0
	futexWakeOp     = 1
	futexCmpRequeue = 4
	everyone        = 1 << 30
)

func cloneWalk(c *control) int64

func address[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

// Started is a script that a child is walking.
type Started struct {
	script *Script
	pid    int
	pidfd  int
}

// Pid is the child's process id, as this process sees it.
func (s Started) Pid() int { return s.pid }

// Pidfd is the child's descriptor. Await hands it on.
func (s Started) Pidfd() int { return s.pidfd }

// Start clones a child that walks the script. flags are CLONE_NEW flags;
// cgroup is the descriptor of a version 2 group that the child is born in, or
// -1. It returns as soon as the child exists: Await must follow.
func (s *Script) Start(flags uint64, cgroup int) (Started, error) {
	if s.full != nil {
		return Started{}, s.full
	}
	c := s.control()
	c.phase = uint32(walking)
	c.clone = cloneArgs{
		flags:      flags | unix.CLONE_VM | unix.CLONE_PIDFD | unix.CLONE_CLEAR_SIGHAND | unix.CLONE_CHILD_CLEARTID,
		pidfd:      address(&c.pidfd),
		childTid:   address(&c.phase),
		exitSignal: uint64(unix.SIGCHLD),
	}
	if cgroup >= 0 {
		c.clone.flags |= unix.CLONE_INTO_CGROUP
		c.clone.cgroup = uint64(cgroup)
	}
	pid := cloneWalk(c)
	if pid < 0 {
		return Started{}, os.NewSyscallError("clone3", syscall.Errno(-pid))
	}
	return Started{script: s, pid: int(pid), pidfd: int(c.pidfd)}, nil
}

// Await waits until the child has left our memory, by executing its program or
// by failing, and gives the process or the failure. No child is left by a
// failure. The script can be freed or read (Step.Result) afterwards.
func (s Started) Await() (*Process, error) {
	c := s.script.control()
	futexAwaitZero(&c.phase)
	first := s.Process()
	if s.script.branched == nil {
		return first.unlessFailed(s.script)
	}
	_, err := first.Wait()
	branch := int(s.script.branched.Result())
	if branch <= 0 {
		return nil, errors.Join(s.script.failure(), err)
	}
	futexAwaitZero(&c.branch)
	pidfd, err := unix.PidfdOpen(branch, 0)
	if err != nil {
		return nil, fmt.Errorf("spawn: pidfd_open: %w", err)
	}
	return (&Process{pid: branch, pidfd: pidfdFile(pidfd)}).unlessFailed(s.script)
}

// Process is the child itself, whatever it is doing. It owns the descriptor.
func (s Started) Process() *Process { return &Process{pid: s.pid, pidfd: pidfdFile(s.pidfd)} }

// Reached waits until the child announces the phase. A child that ends before
// is a failure; it is for the caller to reap. The script must not be freed
// before Released.
func (s Started) Reached(phase Phase) error {
	word := &s.script.control().phase
	for {
		now := atomic.LoadUint32(word)
		switch at := Phase(now); {
		case at == Gone:
			return s.script.failure()
		case phase != Gone && at >= phase && at != walking:
			return nil
		}
		futexAwait(word, now)
	}
}

// Released says whether the child has left the script's memory.
func (s Started) Released() bool { return atomic.LoadUint32(&s.script.control().phase) == uint32(Gone) }

func (p *Process) unlessFailed(s *Script) (*Process, error) {
	failure := s.failure()
	if failure == nil {
		return p, nil
	}
	_, err := p.Wait()
	return nil, errors.Join(failure, err)
}

// pidfdFile lets Go's poller wait for the process, so that waiting costs a
// goroutine and not a thread.
func pidfdFile(fd int) *os.File {
	unix.SetNonblock(fd, true) //nolint:errcheck // without it a thread waits instead
	return os.NewFile(uintptr(fd), "pidfd")
}

func futexAwaitZero(word *uint32) {
	for now := atomic.LoadUint32(word); now != 0; now = atomic.LoadUint32(word) {
		futexAwait(word, now)
	}
}

// futexAwait waits while the word holds a value.
func futexAwait(word *uint32, value uint32) {
	syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(value), 0, 0, 0)
}

func futexWake(word *uint32) {
	syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWakeOp, everyone, 0, 0, 0)
}
