package spawn

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
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
	handle *handle
}

// handle owns the child's descriptor, or has made the Process that does.
type handle struct {
	mu      sync.Mutex
	process *Process
}

// Pid is the child's process id, as this process sees it.
func (s Started) Pid() int { return s.pid }

// Pidfd is the child's descriptor. Await hands it on.
func (s Started) Pidfd() int { return s.pidfd }

// Start clones a child that walks the script. flags are CLONE_NEW flags;
// cgroup is the descriptor of a version 2 group that the child is born in, or
// -1. It returns as soon as the child exists: Await must follow. The descriptors that
// the script names stay open until that or another wait for the child is over.
func (s *Script) Start(flags uint64, cgroup int) (Started, error) {
	if s.full != nil {
		return Started{}, s.full
	}
	c := s.control()
	c.phase = walking
	c.clone = cloneArgs{
		flags:      flags | unix.CLONE_VM | unix.CLONE_PIDFD | unix.CLONE_CLEAR_SIGHAND | unix.CLONE_CHILD_CLEARTID,
		pidfd:      address(&c.pidfd),
		childTid:   address(&c.phase),
		exitSignal: uint64(unix.SIGCHLD),
	}
	if s.branched != nil {
		// Nothing comes of the end of one that only gives birth, which is waited for by
		// name. The runtime would handle the signal by some thread, in the middle of what
		// is being waited for. Who executes a program has the signal again.
		c.clone.exitSignal = 0
	}
	if cgroup >= 0 {
		c.clone.flags |= unix.CLONE_INTO_CGROUP
		c.clone.cgroup = uint64(cgroup)
	}
	c.clone.flags |= s.shareTable()
	pid := cloneWalk(c)
	if pid < 0 {
		return Started{}, os.NewSyscallError("clone3", syscall.Errno(-pid))
	}
	return Started{script: s, pid: int(pid), pidfd: Aside(int(c.pidfd)), handle: &handle{}}, nil
}

// Await waits until the child has left our memory, by executing its program or
// by failing, and gives the process or the failure. No child is left by a
// failure.
//
// A child that is stopped or takes too long is killed: in the namespaces that it
// enters others may be able to stop it.
func (s Started) Await() (*Process, error) {
	word := &s.script.control().phase
	for look, waited := firstLook, time.Duration(0); !futexAwaitZero(word, look); look = min(2*look, patience) {
		if waited += look; waited >= slowest*patience || s.stopped(waited >= patience) {
			s.abandon()
			futexAwaitZero(word, 0)
			break
		}
	}
	if s.script.branched == nil {
		return s.Process().unlessFailed(s.script)
	}
	if !s.Born() {
		_, err := s.Process().Wait()
		return nil, errors.Join(cmp.Or(s.script.failure(), ErrAbandoned), err)
	}
	pid := int(atomic.LoadInt32(&s.script.control().branchPid))
	pidfd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		// A child that nobody can wait for would keep its namespaces for ever.
		unix.Kill(pid, unix.SIGKILL)
		_, _, reaped := reapPid(pid)
		return nil, errors.Join(fmt.Errorf("spawn: pidfd_open: %w", err), reaped)
	}
	return (&Process{pid: pid, pidfd: pidfdFile(pidfd)}).unlessFailed(s.script)
}

// Born says whether a script that branches has done so. Before that it can have
// changed nothing that others see.
func (s Started) Born() bool { return atomic.LoadInt32(&s.script.control().branchPid) > 0 }

// Done gives the script's memory back once nobody walks it any more. A process
// that has branched is still on its way to its end when its child has executed;
// it is left to Bury.
func (s Started) Done() error {
	if s.script.branched == nil || !s.Born() {
		return s.script.Free()
	}
	ending.add(s)
	return nil
}

// ending are processes that have branched and are not reaped yet.
var ending unreaped

type unreaped struct {
	mu      sync.Mutex
	list    []Started
	timed   bool       // they will be waited for
	burying sync.Mutex // held while any are reaped
}

// endingTime is how long those are left alone. They have ended by then, which takes one look
// at each, and none of a processor that a child of theirs wants.
const endingTime = 10 * time.Millisecond

// Bury reaps the processes that have branched and ended until now, as is done in the
// background. It is for those who are to leave none behind.
func Bury() { ending.bury(Started.buried) }

func (u *unreaped) add(list ...Started) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = append(u.list, list...)
	if len(u.list) > 0 && !u.timed {
		u.timed = true
		time.AfterFunc(endingTime, u.wait)
	}
}

// wait sees to all. One that has not ended, which may be frozen with others, is waited for by
// nobody else.
func (u *unreaped) wait() {
	u.mu.Lock()
	u.timed = false
	u.mu.Unlock()
	u.bury(func(s Started) bool {
		if !s.buried() {
			go s.bury()
		}
		return true
	})
}

// bury takes those from the list that fn says are seen to.
func (u *unreaped) bury(fn func(Started) bool) {
	u.burying.Lock()
	defer u.burying.Unlock()
	u.mu.Lock()
	list := u.list
	u.list = nil
	u.mu.Unlock()
	u.add(slices.DeleteFunc(list, fn)...)
}

// buried reaps the child if it has ended.
func (s Started) buried() bool {
	s.handle.mu.Lock()
	defer s.handle.mu.Unlock()
	if s.handle.process != nil {
		return false
	}
	if _, ended, err := tryReap(s.pidfd); !ended || err != nil {
		return false
	}
	unix.Close(s.pidfd)
	_ = s.script.Free() // memory that cannot be unmapped is only lost
	return true
}

// bury reaps the child, which is about to end.
func (s Started) bury() {
	if _, err := s.Process().Wait(); err == nil {
		_ = s.script.Free() // likewise
	}
}

// patience is how long a child may be traced, as by this program, before it executes
// its own. One that only is slow, for the host or its disk is busy, has that slowest
// times over. One that a signal has stopped has no time: it is looked for from
// firstLook on, ever less often, for others may have to wait meanwhile.
const firstLook = 20 * time.Millisecond

var ( // tests change them
	slowest  = time.Duration(10)
	patience = 2 * time.Second
)

// stopped says whether the child was stopped by a signal or, with long, for another
// reason, or is gone from sight.
func (s Started) stopped(long bool) bool {
	pid := s.pid
	if branched := atomic.LoadInt32(&s.script.control().branchPid); branched > 0 {
		pid = int(branched)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	end := bytes.LastIndexByte(text, ')')
	if err != nil || end < 0 {
		return long
	}
	return bytes.HasPrefix(text[end:], []byte(") T")) || long && bytes.HasPrefix(text[end:], []byte(") t"))
}

// ErrAbandoned is the failure of a child that took too long.
var ErrAbandoned = errors.New("the process was stopped or held up before it could start its program")

// abandon kills a child that does not leave our memory. It is ours and not
// reaped, so the number is its own.
func (s Started) abandon() {
	atomic.StoreUint32(&s.script.control().abandoned, 1)
	if pid := atomic.LoadInt32(&s.script.control().branchPid); pid > 0 {
		unix.Kill(int(pid), unix.SIGKILL)
		return
	}
	unix.PidfdSendSignal(s.pidfd, unix.SIGKILL, nil, 0)
}

// Process is the child itself, whatever it is doing, and always the same value. It is not
// to be asked for after Done.
func (s Started) Process() *Process {
	s.handle.mu.Lock()
	defer s.handle.mu.Unlock()
	if s.handle.process == nil {
		s.handle.process = &Process{pid: s.pid, pidfd: pidfdFile(s.pidfd)}
	}
	return s.handle.process
}

// Announced waits for the child's mark. A child that ends before is a failure;
// it is for the caller to reap.
func (s Started) Announced() error {
	word := &s.script.control().phase
	for {
		switch now := atomic.LoadUint32(word); now {
		case announced:
			return nil
		case gone:
			return cmp.Or(s.script.failure(), ErrAbandoned)
		default:
			futexAwait(word, now, 0)
		}
	}
}

// Left waits until the child has left our memory, and gives its failure if it
// did so by failing. It is for the caller to reap.
func (s Started) Left() error {
	futexAwaitZero(&s.script.control().phase, 0)
	return s.script.failure()
}

func (p *Process) unlessFailed(s *Script) (*Process, error) {
	failure := s.failure()
	if failure == nil && atomic.LoadUint32(&s.control().abandoned) != 0 {
		failure = ErrAbandoned
	}
	if failure == nil {
		return p, nil
	}
	// One that was born just when its maker was abandoned knows nothing of that.
	p.Signal(unix.SIGKILL)
	_, err := p.Wait()
	return nil, errors.Join(failure, err)
}

// pidfdFile lets Go's poller wait for the process, so that waiting costs a
// goroutine and not a thread. The descriptor is out of the way of new processes.
func pidfdFile(fd int) *os.File {
	fd = Aside(fd)
	unix.SetNonblock(fd, true) //nolint:errcheck // without it a thread waits instead
	return os.NewFile(uintptr(fd), "pidfd")
}

// futexAwaitZero waits until the word is zero, for a time at most unless that is
// zero, and says whether it is.
func futexAwaitZero(word *uint32, most time.Duration) bool {
	start := time.Now()
	for now := atomic.LoadUint32(word); now != 0; now = atomic.LoadUint32(word) {
		left := most - time.Since(start)
		if most > 0 && left <= 0 {
			return false
		}
		futexAwait(word, now, max(left, 0))
	}
	return true
}

// futexAwait waits while the word holds a value, for a time at most unless that
// is zero.
func futexAwait(word *uint32, value uint32, most time.Duration) {
	var timeout *unix.Timespec
	if most > 0 {
		t := unix.NsecToTimespec(int64(most))
		timeout = &t
	}
	syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(value), uintptr(unsafe.Pointer(timeout)), 0, 0)
}

func futexWake(word *uint32) {
	syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWakeOp, everyone, 0, 0, 0)
}
