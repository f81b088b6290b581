package spawn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	maxSteps     = 256
	controlSize  = 256
	stepSize     = 80
	stepsSize    = maxSteps * stepSize
	defaultArena = 40 << 10
	maxArena     = 8 << 20
)

// Flags of a step, as the assembly reads them.
const (
	mayFail = 1 << iota // an error does not end the script
	branch              // a clone: its child goes on at the step in dst
	jump                // whoever has made the call goes on at the step in dst
)

// step is one system call. Its layout is known to the assembly.
type step struct {
	nr    uintptr
	args  [6]uintptr
	flags uintptr
	dst   uintptr // where the result is stored too, or 0; for branch, where the child goes on
	res   int64
}

// cloneArgs is the kernel's struct clone_args, up to the field cgroup.
type cloneArgs struct {
	flags, pidfd, childTid, parentTid, exitSignal, stack, stackSize, tls, setTid, setTidSize, cgroup uint64
}

// control is the head of a script's memory. Its layout is known to the assembly.
type control struct {
	all, old   uint64    // 0: signal masks around the clone
	clone      cloneArgs // 16
	failedStep int64     // 104: address of the step that failed, or 0
	failedErr  int64     // 112: its negative errno
	noSignals  uint64    // 120: an empty signal set, for the script's last steps
	phase      uint32    // 128: see Phase; cleared by the kernel when the child has left our memory
	_          uint32    // 132: results are stored as 64 bits
	pidfd      int32     // 136
	_          int32     // 140
	nested     cloneArgs // 144: for a clone made by the script itself
	branchPid  int32     // 232: the number of its child, from the moment that it exists
	abandoned  uint32    // 236: we killed it
}

// Script is a list of system calls in memory that the garbage collector does
// not know. Use it for one Start, then Free it.
type Script struct {
	memory []byte
	count  int
	used   int // of the arena
	most   int // steps
	full   error
	// shift is added to addresses here to give those where the script is walked:
	// 0, unless that is in another process's memory.
	shift uintptr
	// branched is the step of Branch, if there is one.
	branched *Step
	// leave is the step by which the child leaves our table of descriptors, if there
	// is one.
	leave *Step
}

var scripts = sync.Pool{New: func() any {
	s, err := mapScript(defaultArena)
	if err != nil {
		return err
	}
	return s
}}

// NewScript makes an empty script with room for about size bytes of arguments.
func NewScript(size int) (*Script, error) {
	if size > maxArena {
		return nil, fmt.Errorf("spawn: arguments of %d bytes are over %d: %w", size, maxArena, unix.E2BIG)
	}
	if size > defaultArena {
		s, err := mapScript(size + actionSize)
		if err == nil {
			s.begin()
		}
		return s, err
	}
	switch got := scripts.Get().(type) {
	case *Script:
		got.reset()
		got.begin()
		return got, nil
	case error:
		return nil, got
	}
	return nil, errors.New("spawn: impossible pool content")
}

// begin appends what every child begins with.
func (s *Script) begin() {
	s.leaveTable()
	s.heedSignals()
}

const (
	firstRealTime = 32 // signal
	actionSize    = 32 // of what is done about one
)

// heedSignals has the child ignore none of the signals that this program ignores: that
// survives executions, as daemons ignore SIGPIPE and nohup has a program ignore SIGHUP. What
// is caught here the kernel has forgotten by now.
func (s *Script) heedSignals() {
	var heed uintptr
	for n := unix.Signal(1); n < firstRealTime; n++ {
		if !signal.Ignored(n) {
			continue
		}
		if heed == 0 {
			heed, _ = s.Bytes(actionSize)
		}
		s.Call(unix.SYS_RT_SIGACTION, uintptr(n), heed, 0, 8)
	}
}

func mapScript(arena int) (*Script, error) {
	memory, err := unix.Mmap(-1, 0, controlSize+stepsSize+arena, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("spawn: map a script: %w", err)
	}
	s := &Script{memory: memory, most: maxSteps}
	s.reset()
	return s, nil
}

// Free gives the memory back. The script's child must have left it: Start sees
// to that before it returns.
func (s *Script) Free() error {
	if len(s.memory) == controlSize+stepsSize+defaultArena {
		scripts.Put(s)
		return nil
	}
	memory := s.memory
	s.memory = nil
	return unix.Munmap(memory)
}

func (s *Script) reset() {
	s.count, s.used, s.full, s.branched, s.leave = 0, 0, nil, nil, nil
	*s.control() = control{all: ^uint64(0)}
}

func (s *Script) control() *control { return (*control)(unsafe.Pointer(&s.memory[0])) }

func (s *Script) step(i int) *step {
	return (*step)(unsafe.Pointer(&s.memory[controlSize+i*stepSize]))
}

func (s *Script) base() uintptr { return s.there(unsafe.Pointer(&s.memory[0])) }

// there is the address that those who walk the script know a place of it by.
func (s *Script) there(place unsafe.Pointer) uintptr { return uintptr(place) + s.shift }

func (s *Script) stepsSize() int { return s.most * stepSize }

// Step is a handle on one step of a script.
type Step struct {
	script *Script
	index  int
}

// Call appends a system call. Arguments are numbers or addresses that String,
// Bytes and Strings gave.
func (s *Script) Call(nr uintptr, args ...uintptr) Step {
	if s.count == s.most {
		s.full = fmt.Errorf("spawn: a script has at most %d steps", s.most)
		s.count--
	}
	st := s.step(s.count)
	*st = step{nr: nr}
	copy(st.args[:], args)
	s.count++
	return Step{s, s.count - 1}
}

// Len is how many steps there are.
func (s *Script) Len() int { return s.count }

// Spoil makes a step fail, for tests of who runs scripts, and says whether that is
// a failure of the script.
func (s *Script) Spoil(index int) bool {
	const none = 1 << 20 // no system call
	st := s.step(index)
	st.nr = none
	return st.flags&mayFail == 0
}

// MayFail lets the script go on if the call fails.
func (st Step) MayFail() Step {
	st.script.step(st.index).flags |= mayFail
	return st
}

// Into stores the call's result as argument arg of a later step too.
func (st Step) Into(later Step, arg int) Step {
	st.script.step(st.index).dst = st.script.there(unsafe.Pointer(&later.script.step(later.index).args[arg]))
	return st
}

// IntoAddress stores the 64-bit result at an address that Bytes gave.
func (st Step) IntoAddress(address uintptr) Step {
	st.script.step(st.index).dst = address
	return st
}

// Result is what the call returned, once the child has made it.
func (st Step) Result() int64 {
	return atomic.LoadInt64(&st.script.step(st.index).res)
}

// Branch appends a clone3 whose child shares our memory, has the same parent as
// the process that walks the script, and goes on at the step that Land marks. It
// is born in the version 2 cgroup of that descriptor, or where its maker is for
// -1. The cloning process goes on with the next step once its child has left our
// memory (CLONE_VFORK), and must end by Exit. The child, not the cloning process,
// is then what Start gives.
//
// The vfork is not for speed. The kernel's out-of-memory killer ends everything
// that shares a victim's memory, which for a child of ours would be this whole
// program; only a child in the middle of a vfork is never a victim. So whatever
// enters a group with a memory limit is such a child.
func (s *Script) Branch(cgroup int) Step {
	c := s.control()
	c.nested = cloneArgs{
		flags:     unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PARENT | unix.CLONE_CHILD_CLEARTID | unix.CLONE_PARENT_SETTID,
		childTid:  uint64(s.there(unsafe.Pointer(&c.phase))),
		parentTid: uint64(s.there(unsafe.Pointer(&c.branchPid))),
	}
	if cgroup >= 0 {
		c.nested.flags |= unix.CLONE_INTO_CGROUP
		c.nested.cgroup = uint64(cgroup)
	}
	at := s.Call(unix.SYS_CLONE3, s.there(unsafe.Pointer(&c.nested)), unsafe.Sizeof(c.nested))
	s.step(at.index).flags |= branch
	s.branched = &at
	return at
}

// BranchFiltered is Branch for a process whose system call filter does not know
// clone3. Its child is born in the cgroups of its maker.
func (s *Script) BranchFiltered() Step {
	c := s.control()
	parentTid, childTid := uintptr(unsafe.Pointer(&c.branchPid)), uintptr(unsafe.Pointer(&c.phase))
	flags := uintptr(unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PARENT | unix.CLONE_CHILD_CLEARTID | unix.CLONE_PARENT_SETTID)
	at := s.Call(unix.SYS_CLONE, flags, 0, parentTid, childTid, 0)
	if runtime.GOARCH != "amd64" { // the last two have changed places
		st := s.step(at.index)
		st.args[3], st.args[4] = 0, childTid
	}
	s.step(at.index).flags |= branch
	s.branched = &at
	return at
}

// Land makes the child of clone go on at the next step to be appended.
func (s *Script) Land(clone Step) {
	s.step(clone.index).dst = s.base() + controlSize + uintptr(s.count)*stepSize
}

// Exit appends the end of a process that has branched.
func (s *Script) Exit() { s.Call(unix.SYS_EXIT_GROUP, 0) }

func (s *Script) alloc(n int) []byte {
	n = (n + 7) &^ 7
	start := controlSize + s.stepsSize() + s.used
	if start+n > len(s.memory) {
		s.full = fmt.Errorf("spawn: the script's arguments do not fit %d bytes: %w", len(s.memory)-controlSize-s.stepsSize(), unix.E2BIG)
		return make([]byte, n)
	}
	s.used += n
	return s.memory[start : start+n : start+n]
}

// Bytes reserves n zeroed bytes and gives their address.
func (s *Script) Bytes(n int) (uintptr, []byte) {
	mem := s.alloc(n)
	clear(mem)
	return s.there(unsafe.Pointer(&mem[0])), mem[:n]
}

// String puts a string, zero-terminated, into the script.
func (s *Script) String(text string) uintptr {
	mem := s.alloc(len(text) + 1)
	copy(mem, text)
	clear(mem[len(text):])
	return s.there(unsafe.Pointer(&mem[0]))
}

// Strings puts a zero-terminated list of strings (argv, environment) into the
// script.
func (s *Script) Strings(list []string) uintptr {
	address, mem := s.Bytes(8 * (len(list) + 1))
	for i, text := range list {
		*(*uintptr)(unsafe.Pointer(&mem[8*i])) = s.String(text)
	}
	return address
}

// Size is an upper bound of what Strings needs for a list.
func Size(list []string) int {
	n := 8
	for _, text := range list {
		n += 8 + len(text) + 8
	}
	return n
}

// NoSignals is the address of an empty signal set.
func (s *Script) NoSignals() uintptr { return s.there(unsafe.Pointer(&s.control().noSignals)) }

// Word is a 32-bit word that a script's child can wait for (futex) and the
// parent can set; it lives as long as its script.
type Word struct{ address *uint32 }

// Word reserves a word, initially zero.
func (s *Script) Word() Word {
	_, mem := s.Bytes(8)
	return Word{(*uint32)(unsafe.Pointer(&mem[0]))}
}

// Set lets the child go on.
func (w Word) Set() {
	atomic.StoreUint32(w.address, 1)
	futexWake(w.address)
}

// Wait appends a wait until the word is set, at most for a time if that is not
// zero. A word that is not set then ends the script: a child whose parent died
// before it could say so must not wait for ever.
func (s *Script) Wait(w Word, most time.Duration) {
	var timeout uintptr
	if most > 0 {
		at, mem := s.Bytes(16)
		binary.NativeEndian.PutUint64(mem, uint64(most/time.Second))
		binary.NativeEndian.PutUint64(mem[8:], uint64(most%time.Second))
		timeout = at
	}
	word := s.there(unsafe.Pointer(w.address))
	s.Call(unix.SYS_FUTEX, word, futexWait, 0, timeout).MayFail()
	s.Expect(word, 1)
}

// Expect appends the end of the script unless a word of 32 bits holds a value.
// Requeueing nobody succeeds if and only if it does: an assertion that costs no
// code in the child.
func (s *Script) Expect(word uintptr, value uint32) {
	s.Call(unix.SYS_FUTEX, word, futexCmpRequeue, 0, 0, word, uintptr(value))
}

// Phases of a child, as it tells them.
const (
	gone      = iota // it has executed its program, or ended
	announced        // it has reached its mark
	walking
)

// Announce appends a mark, which Announced waits for. The child's standard
// output becomes a copy of the descriptor null.
func (s *Script) Announce(null uintptr) {
	at := s.there(unsafe.Pointer(&s.control().phase))
	// The result of dup3 is the number that was asked for.
	s.Call(unix.SYS_DUP3, null, announced, 0).IntoAddress(at)
	s.Call(unix.SYS_FUTEX, at, futexWakeOp, everyone)
}

// Err is why the script cannot be run: it has too many steps or arguments.
func (s *Script) Err() error { return s.full }

// Failure says which step of a script failed.
type Failure struct {
	// Step is the failed call as Explain prints it, Index its place.
	Step  string
	Index int
	Errno syscall.Errno
}

func (f *Failure) Error() string { return f.Step + ": " + f.Errno.Error() }

// Unwrap gives the errno.
func (f *Failure) Unwrap() error { return f.Errno }

func (s *Script) failure() error {
	c := s.control()
	at := atomic.LoadInt64(&c.failedStep)
	if at == 0 {
		return nil
	}
	index := (int(at) - int(s.base()) - controlSize) / stepSize
	return &Failure{Step: s.explainStep(index), Index: index, Errno: syscall.Errno(-c.failedErr)}
}
