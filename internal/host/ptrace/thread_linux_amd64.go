package ptrace

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	maxXState  = 16 << 10
	sigsetSize = 8
	trapped    = 4 // CLD_TRAPPED
	// stopPatience is how long a thread may take to stop that is not about to, callPatience
	// how long one that only needs a processor for it, and how long to make calls.
	stopPatience = time.Second
	callPatience = 30 * time.Second
	// Stops at the beginning and at the end of calls are told from signals.
	callStop = int(unix.SIGTRAP) | 0x80
)

// Thread is a thread that this one traces.
type Thread struct {
	TID int
	// Signal is one that was about to be delivered when the thread stopped. It is
	// delivered when the thread goes on.
	Signal syscall.Signal
	// Stopped says that its whole process was stopped already (SIGSTOP), as it
	// will be when the thread goes on.
	Stopped bool
	// Careful has calls cost twice as many stops, and no trap. A trap is a signal
	// that cannot be blocked: one that the process has a handler for, ignores or
	// waits for would be lost to it.
	Careful bool
}

// Registers are the general ones.
type Registers = unix.PtraceRegs

// RSeq is a thread's registration for restartable sequences.
type RSeq struct {
	Pointer   uint64
	Size      uint32
	Signature uint32
	Flags     uint32
	_         uint32
}

// ErrGone is the failure of a thread that has ended.
var ErrGone = fmt.Errorf("ptrace: the thread has ended: %w", unix.ESRCH)

// ErrStuck is the failure of a thread that did not stop in time: it waits in the
// kernel for something that is not to be interrupted.
var ErrStuck = fmt.Errorf("ptrace: the thread does not stop: %w", unix.EBUSY)

// ErrDisturbed is the failure of a call in which a signal came that cannot be
// blocked.
var ErrDisturbed = errors.New("ptrace: the thread was sent a signal")

func request(req, tid int, addr uintptr, data unsafe.Pointer) error {
	_, _, errno := syscall.RawSyscall6(unix.SYS_PTRACE, uintptr(req), uintptr(tid), addr, uintptr(data), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func number(req, tid int, data uintptr) error {
	_, _, errno := syscall.RawSyscall6(unix.SYS_PTRACE, uintptr(req), uintptr(tid), 0, data, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Seize begins to trace a thread and asks it to stop; Await must follow.
func Seize(tid int) (*Thread, error) {
	if err := number(unix.PTRACE_SEIZE, tid, unix.PTRACE_O_TRACESYSGOOD); err != nil {
		return nil, fmt.Errorf("ptrace: seize %d: %w", tid, err)
	}
	if err := number(unix.PTRACE_INTERRUPT, tid, 0); err != nil {
		return nil, fmt.Errorf("ptrace: interrupt %d: %w", tid, err)
	}
	return &Thread{TID: tid}, nil
}

// Await waits until the thread has stopped.
func (t *Thread) Await() error {
	status, err := t.wait(stopPatience)
	if err != nil {
		return err
	}
	switch status >> 8 {
	case 0: // a signal that is about to be delivered
		t.Signal = syscall.Signal(status)
	case unix.PTRACE_EVENT_STOP:
		t.Stopped = syscall.Signal(status&0xff) != unix.SIGTRAP
	}
	return nil
}

// wait waits for a stop and gives its signal, with the event above it. Nearly
// always the thread stops at once; if not, another thread waits for it, for this
// one must be able to give up.
func (t *Thread) wait(patience time.Duration) (int, error) {
	var naps naps
	defer naps.end()
	for ; !naps.long(); naps.nap() {
		if status, ok, err := t.poll(); ok || err != nil {
			return status, err
		}
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		t.block()
	}()
	for end := time.Now().Add(callPatience); ; {
		select {
		case <-stopped:
		case <-time.After(patience):
			if t.pending() || t.runs() && time.Now().Before(end) {
				continue // the host is busy
			}
			return 0, ErrStuck
		}
		break
	}
	status, ok, err := t.poll()
	if err == nil && !ok {
		err = ErrStuck
	}
	return status, err
}

// pending says that the thread has stopped, or ended, and that nobody has taken notice
// yet: who waits for it may not have had a processor since.
func (t *Thread) pending() bool {
	var info childInfo
	err := t.waitid(&info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT|unix.WNOHANG)
	return err == nil && info.pid != 0
}

// runs says whether the thread runs, or would if there were a processor for it.
func (t *Thread) runs() bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", t.TID))
	if err != nil {
		return false // it has ended
	}
	_, state, found := bytes.Cut(text[bytes.LastIndexByte(text, ')')+1:], []byte(" "))
	return found && bytes.HasPrefix(state, []byte("R"))
}

// childInfo is the part of siginfo_t that waitid fills.
type childInfo struct {
	signo, errno, code int32
	_                  int32
	pid                int32
	uid                uint32
	status             int32
	_                  [100]byte
}

// poll takes a stop, if there is one. The end of a thread is left for those to
// see who wait for it.
func (t *Thread) poll() (status int, ok bool, err error) {
	var info childInfo
	if err := t.waitid(&info, unix.WSTOPPED|unix.WNOHANG); err != nil || info.pid != 0 {
		return int(info.status), info.pid != 0, err
	}
	if err := t.waitid(&info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT|unix.WNOHANG); err != nil {
		return 0, false, err
	}
	if info.pid != 0 && info.code != trapped {
		return 0, false, ErrGone
	}
	return 0, false, nil
}

func (t *Thread) block() {
	var info childInfo
	_ = t.waitid(&info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT) // poll finds out the same
}

func (t *Thread) waitid(info *childInfo, options int) error {
	for {
		call := syscall.Syscall6
		if options&unix.WNOHANG != 0 {
			call = syscall.RawSyscall6
		}
		_, _, errno := call(unix.SYS_WAITID, unix.P_PID, uintptr(t.TID), uintptr(unsafe.Pointer(info)), uintptr(options|unix.WALL), 0, 0)
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		case unix.ECHILD:
			return ErrGone
		default:
			return fmt.Errorf("ptrace: waitid %d: %w", t.TID, errno)
		}
	}
}

// Registers reads the general registers.
func (t *Thread) Registers() (r Registers, err error) {
	err = request(unix.PTRACE_GETREGS, t.TID, 0, unsafe.Pointer(&r))
	return r, err
}

// SetRegisters writes them.
func (t *Thread) SetRegisters(r *Registers) error {
	return request(unix.PTRACE_SETREGS, t.TID, 0, unsafe.Pointer(r))
}

// Extended reads the floating point and vector registers.
func (t *Thread) Extended() ([]byte, error) {
	buf := make([]byte, maxXState)
	vec := unix.Iovec{Base: &buf[0], Len: maxXState}
	err := request(unix.PTRACE_GETREGSET, t.TID, unix.NT_X86_XSTATE, unsafe.Pointer(&vec))
	return buf[:vec.Len], err
}

// SetExtended writes them.
func (t *Thread) SetExtended(state []byte) error {
	vec := unix.Iovec{Base: &state[0], Len: uint64(len(state))}
	return request(unix.PTRACE_SETREGSET, t.TID, unix.NT_X86_XSTATE, unsafe.Pointer(&vec))
}

// SignalMask reads which signals are blocked.
func (t *Thread) SignalMask() (mask uint64, err error) {
	err = request(unix.PTRACE_GETSIGMASK, t.TID, sigsetSize, unsafe.Pointer(&mask))
	return mask, err
}

// SetSignalMask sets it.
func (t *Thread) SetSignalMask(mask uint64) error {
	return request(unix.PTRACE_SETSIGMASK, t.TID, sigsetSize, unsafe.Pointer(&mask))
}

// RSeq reads the registration for restartable sequences.
func (t *Thread) RSeq() (r RSeq, err error) {
	err = request(unix.PTRACE_GET_RSEQ_CONFIGURATION, t.TID, unsafe.Sizeof(r), unsafe.Pointer(&r))
	return r, err
}

// UserDispatch says whether system calls of the thread become signals: one that is made
// in its name would. Kernels before 6.4 do not tell, and it is said that they do not.
func (t *Thread) UserDispatch() (bool, error) {
	const get = 0x4211 // PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG
	var config struct{ mode, selector, offset, length uint64 }
	err := request(get, t.TID, unsafe.Sizeof(config), unsafe.Pointer(&config))
	if err == unix.EIO {
		return false, nil
	}
	return config.mode != unix.PR_SYS_DISPATCH_OFF, err
}

// Call has the stopped thread make one system call, by the syscall instruction
// at site. Its registers are changed: the caller sets them again. All of its
// signals should be blocked.
func (t *Thread) Call(base *Registers, site uint64, nr uintptr, args ...uint64) (int64, error) {
	r := *base
	var a [6]uint64
	copy(a[:], args)
	r.Rip, r.Rax, r.Orig_rax = site, uint64(nr), ^uint64(0)
	r.Rdi, r.Rsi, r.Rdx, r.R10, r.R8, r.R9 = a[0], a[1], a[2], a[3], a[4], a[5]
	if err := t.SetRegisters(&r); err != nil {
		return 0, fmt.Errorf("ptrace: set registers: %w", err)
	}
	by, end, stops := unix.PTRACE_SINGLESTEP, int(unix.SIGTRAP), 1
	if t.Careful {
		by, end, stops = unix.PTRACE_SYSCALL, callStop, 2 // before it and after it
	}
	for range stops {
		if err := t.goOn(by); err != nil {
			return 0, err
		}
		if err := t.until(by, end); err != nil {
			return 0, fmt.Errorf("system call %d: %w", nr, err)
		}
	}
	r, err := t.Registers()
	return int64(r.Rax), err
}

// goOn lets the thread go on to its next stop.
func (t *Thread) goOn(by int) error {
	if err := number(by, t.TID, 0); err != nil {
		return fmt.Errorf("ptrace: go on: %w", err)
	}
	return nil
}

// until waits for a stop of one kind. It goes on after a stop that was asked for
// before.
func (t *Thread) until(by, end int) error {
	for {
		status, err := t.wait(callPatience)
		switch {
		case err != nil:
			return err
		case status == end:
			return nil
		case status>>8 != unix.PTRACE_EVENT_STOP:
			return t.disturbed(status)
		}
		if err := t.goOn(by); err != nil {
			return err
		}
	}
}

// disturbed says that a signal came. It is delivered when the thread goes on.
func (t *Thread) disturbed(status int) error {
	t.Signal = syscall.Signal(status & 0x7f)
	return fmt.Errorf("%w: %d", ErrDisturbed, t.Signal)
}

// Reap takes note of the end of a thread that has ended or is about to, and is
// not the first of its process: until its tracer does, the process cannot end.
func (t *Thread) Reap() error {
	for began := time.Now(); ; time.Sleep(100 * time.Microsecond) {
		var info childInfo
		took := time.Since(began) // before it is looked for: the host may be busy in between
		err := t.waitid(&info, unix.WEXITED|unix.WNOHANG)
		switch {
		case errors.Is(err, ErrGone):
			return nil
		case err != nil || info.pid != 0:
			return err
		case took > stopPatience && (took > callPatience || !t.runs()):
			return ErrStuck
		}
	}
}

// Detach lets the thread go on.
func (t *Thread) Detach() error { return number(unix.PTRACE_DETACH, t.TID, uintptr(t.Signal)) }

// Unnotice makes the registers of a thread that was stopped within a system call
// such that the call is made again, where the kernel would have it fail though no
// signal came: the calls that signal(7) lists as failing after a mere stop.
func Unnotice(r *Registers) (changed bool) {
	const restartNoHandler = -514 // ERESTARTNOHAND: fails if a handler runs, else not
	switch r.Orig_rax {
	case unix.SYS_EPOLL_WAIT, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP,
		unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_IO_GETEVENTS:
		if changed = int64(r.Rax) == -int64(unix.EINTR); changed {
			result := int64(restartNoHandler)
			r.Rax = uint64(result)
		}
	}
	return changed
}

// RestartCall makes the registers of a thread that was stopped within a system
// call such that whoever gets them makes the call again, from its beginning.
func RestartCall(r *Registers) {
	// ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK
	switch result := int64(r.Rax); {
	case int64(r.Orig_rax) < 0:
	case result == -512, result == -513, result == -514, result == -516:
		r.Rax = r.Orig_rax
		r.Rip -= 2
	}
	r.Orig_rax = ^uint64(0)
}

// SuspendFilters has the thread's system calls not be filtered, or filtered
// again. It takes root; the kernel filters again by itself when the thread is
// let go.
func (t *Thread) SuspendFilters(suspend bool) error {
	const suspendSeccomp = 1 << 21 // PTRACE_O_SUSPEND_SECCOMP
	options := uintptr(unix.PTRACE_O_TRACESYSGOOD)
	if suspend {
		options |= suspendSeccomp
	}
	return number(unix.PTRACE_SETOPTIONS, t.TID, options)
}
