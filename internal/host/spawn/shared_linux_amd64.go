package spawn

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Shared is a script that another process walks, again and again: memory that
// this program and that process both map holds the code that walks, the script,
// and what came of it. Between scripts the process waits in the first steps.
type Shared struct {
	*Script
	file        *os.File
	all         []byte // code, then the script's memory
	at          uintptr
	first       int // the step that the process begins with
	standbyStep int // the step that one begins with which stands by
	home        int // how many steps the coming back and waiting take

	run, done     Word
	call, standby Word
	ended         atomic.Bool
}

// Stub is the pause program for a process that this program will trace and make
// into something else: unlike Pause it can be read, which tracing takes.
var Stub = sync.OnceValues(func() (*os.File, error) { return pauseFile("aether-zygote", 0o555) })

// StubSyscall is where in that program the instruction is that makes system calls.
const StubSyscall = loadAddress + elfHeaderSize + progHeaderSize + pauseCall

// codeSize is the room of the walking code, whole pages because it is mapped
// apart from the rest.
const codeSize = 4096

func walkBounds() (start, end uintptr)

// walkCode is the code that walks scripts. It works anywhere.
func walkCode() []byte {
	start, end := walkBounds()
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&start))), end-start)
}

// NewShared makes memory for scripts of so many steps and so many bytes of
// arguments, to be walked by a process that maps it at an address.
func NewShared(steps, arena int, at uintptr) (*Shared, error) {
	size := (codeSize + controlSize + steps*stepSize + arena + 4095) &^ 4095
	file, err := memoryFile("aether-script", 0)
	if err != nil {
		return nil, err
	}
	if err := file.Truncate(int64(size)); err != nil {
		file.Close()
		return nil, fmt.Errorf("spawn: %w", err)
	}
	all, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("spawn: map a script: %w", err)
	}
	copy(all, walkCode())
	s := &Shared{file: file, all: all, at: at, Script: &Script{memory: all[codeSize:], most: steps}}
	s.shift = at + codeSize - uintptr(unsafe.Pointer(&s.memory[0]))
	s.reset()
	s.waitForWork()
	return s, nil
}

// waitForWork makes the steps in which the process says that it has come back
// and waits for the next script, and those in which another one stands by. They
// are never written over: this program may write that script as soon as the
// process has said so.
func (s *Shared) waitForWork() {
	s.run, s.done, s.call, s.standby = s.Word(), s.Word(), s.Word(), s.Word()
	s.Call(unix.SYS_SCHED_YIELD).IntoAddress(s.there(unsafe.Pointer(s.run.address))) // 0
	s.Signal(s.done)
	s.first = s.count
	s.Wait(s.run, 0)
	over := s.JumpLater()
	s.standbyStep = s.count
	s.Call(unix.SYS_SCHED_YIELD).IntoAddress(s.there(unsafe.Pointer(s.call.address))) // 0
	s.Signal(s.standby)
	s.Wait(s.call, 0)
	s.Land(over)
	s.home = s.count
}

// File is the memory, for the other process to map: Code bytes from its start
// executable at the address given to NewShared, the rest, Size in all, writable
// and shared behind it.
func (s *Shared) File() *os.File { return s.file }

// Mapping is where the other process must map the memory: code of so many bytes,
// and behind it the rest.
func (s *Shared) Mapping() (at, code, size uintptr) { return s.at, codeSize, uintptr(len(s.all)) }

// Registers are what the process must hold to begin: where it runs, the control
// block (rbx) and the first step (r12).
func (s *Shared) Registers() (code, control, step uintptr) {
	return s.at, s.base(), s.base() + controlSize + uintptr(s.first)*stepSize
}

// Rewind empties the script, for the next to be written. The process must be
// waiting.
func (s *Shared) Rewind() {
	s.count, s.full = s.home, nil
	s.used = 32 // the four words
	c := s.control()
	c.failedStep, c.failedErr, c.branchPid, c.noSignals = 0, 0, 0, 0
}

// Return ends the script: whoever walks there says so and waits for the next.
func (s *Shared) Return() {
	st := s.step(s.JumpLater().index)
	st.dst = s.base() + controlSize
}

// StandBy ends the script of a process that was cloned from the one that walks
// scripts, whose copy it is: it waits for WakeStandBy.
func (s *Shared) StandBy() {
	st := s.step(s.JumpLater().index)
	st.dst = s.base() + controlSize + uintptr(s.standbyStep)*stepSize
}

// AwaitStandBy waits until the process that is to stand by does.
func (s *Shared) AwaitStandBy(p *Process) error { return s.AwaitFrom(s.standby, p) }

// ExpectStandBy is called before a process is cloned that ends with StandBy.
func (s *Shared) ExpectStandBy() { atomic.StoreUint32(s.standby.address, 0) }

// WakeStandBy has the process that stands by walk the script that was written. That may
// end with StandBy too.
func (s *Shared) WakeStandBy() {
	atomic.StoreUint32(s.standby.address, 0)
	s.call.Set()
}

// Signal appends the setting of a word, which Await of this program waits for.
func (s *Script) Signal(w Word) {
	at := s.there(unsafe.Pointer(w.address))
	s.Call(unix.SYS_GETTID).IntoAddress(at)
	s.Call(unix.SYS_FUTEX, at, futexWakeOp, everyone)
}

// WaitAny appends a wait until a word is not zero.
func (s *Script) WaitAny(w Word) {
	s.Call(unix.SYS_FUTEX, s.there(unsafe.Pointer(w.address)), futexWait, 0, 0).MayFail()
}

// Park appends a step in which a process waits for ever.
func (s *Script) Park() {
	word := s.Word()
	at := s.there(unsafe.Pointer(word.address))
	wait := s.Call(unix.SYS_FUTEX, at, futexWait, 0, 0).MayFail()
	st := s.step(wait.index)
	st.flags |= jump
	st.dst = s.base() + controlSize + uintptr(wait.index)*stepSize
}

// Run has the process walk the script that was written, and waits until it
// returns. An error names the step that failed, in the process itself or in one
// that it branched off.
func (s *Shared) Run() error {
	if s.full != nil {
		return s.full
	}
	atomic.StoreUint32(s.done.address, 0)
	if s.ended.Load() {
		return ErrEnded
	}
	s.run.Set()
	s.Await(s.done)
	if err := s.failure(); err != nil {
		return err
	}
	if s.ended.Load() {
		return ErrEnded
	}
	return nil
}

// Await waits until a word is set by Signal, or by Ended.
func (s *Shared) Await(w Word) {
	for atomic.LoadUint32(w.address) == 0 {
		futexAwait(w.address, 0, 0)
	}
}

// AwaitFrom waits until a process that walks the script sets a word. That it
// fails or ends before is an error.
func (s *Shared) AwaitFrom(w Word, p *Process) error {
	const look = 20 * time.Millisecond
	for atomic.LoadUint32(w.address) == 0 {
		futexAwait(w.address, 0, look)
		if err := s.failure(); err != nil {
			return err
		}
		if atomic.LoadUint32(w.address) == 0 && p.HasEnded() {
			return ErrEnded
		}
	}
	return nil
}

// Release wakes a waiter whose peer has died.
func (w Word) Release() {
	atomic.StoreUint32(w.address, ^uint32(0))
	futexWake(w.address)
}

// Ended says that the process has ended, to whoever waits for it.
func (s *Shared) Ended() {
	s.ended.Store(true)
	s.done.Release()
}

// Failure is what went wrong in whoever walked the script, if anything did.
func (s *Shared) Failure() error { return s.failure() }

// Close gives the memory back. Nobody may wait for the process any more.
func (s *Shared) Close() error {
	all := s.all
	s.all, s.memory = nil, nil
	if err := unix.Munmap(all); err != nil {
		return err
	}
	return s.file.Close()
}

// ErrEnded is the failure of a process that has ended, of itself or killed.
var ErrEnded = fmt.Errorf("spawn: the process that should walk the script has ended")

// Clone describes a process or thread that a script makes.
type Clone struct {
	Flags uint64
	// Tids are the numbers to have in the innermost pid namespaces, the inmost
	// first.
	Tids []int
	// ClearTID is where the kernel writes 0 when it has ended.
	ClearTID uint64
	// Cgroup is a version 2 group to be born in, or -1.
	Cgroup int
	// Ended is the signal that its parent gets when it ends, or 0.
	Ended syscall.Signal
}

// Clone appends a clone3, whose child goes on where Land says. Its number, as
// seen by the process that clones, is Branched.
func (s *Script) Clone(c Clone) Step {
	args := cloneArgs{flags: c.Flags, childTid: c.ClearTID, exitSignal: uint64(c.Ended)}
	if c.ClearTID != 0 {
		args.flags |= unix.CLONE_CHILD_CLEARTID
	}
	if c.Flags&unix.CLONE_PARENT_SETTID != 0 {
		args.parentTid = uint64(s.there(unsafe.Pointer(&s.control().branchPid)))
	}
	if c.Cgroup >= 0 {
		args.flags |= unix.CLONE_INTO_CGROUP
		args.cgroup = uint64(c.Cgroup)
	}
	if len(c.Tids) > 0 {
		at, mem := s.Bytes(4 * len(c.Tids))
		for i, tid := range c.Tids {
			binary.NativeEndian.PutUint32(mem[4*i:], uint32(tid))
		}
		args.setTid, args.setTidSize = uint64(at), uint64(len(c.Tids))
	}
	at, mem := s.Bytes(int(unsafe.Sizeof(args)))
	*(*cloneArgs)(unsafe.Pointer(&mem[0])) = args
	step := s.Call(unix.SYS_CLONE3, at, unsafe.Sizeof(args))
	s.step(step.index).flags |= branch
	return step
}

// Branched is the number of the process that a Clone with CLONE_PARENT_SETTID
// made, or 0 if it has not come to that.
func (s *Shared) Branched() int { return int(atomic.LoadInt32(&s.control().branchPid)) }

// Adopt makes a Process of a number that is a child of this program and has not
// been waited for.
func Adopt(pid int) (*Process, error) {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("spawn: pidfd_open: %w", err)
	}
	return &Process{pid: pid, pidfd: pidfdFile(pidfd)}, nil
}

// JumpLater appends a step from which the process goes on where Land says.
func (s *Script) JumpLater() Step {
	step := s.Call(unix.SYS_SCHED_YIELD)
	s.step(step.index).flags |= jump
	return step
}

// HasEnded looks without waiting, and leaves the process to be waited for.
func (p *Process) HasEnded() (ended bool) {
	err := p.Fd(func(pidfd int) {
		_, ended, _ = waitid(unix.P_PIDFD, pidfd, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL)
	})
	return ended || err != nil
}
