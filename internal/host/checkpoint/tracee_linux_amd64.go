package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"aether/internal/host/ptrace"

	"golang.org/x/sys/unix"
)

// Tracee is a process all of whose threads are stopped. Everything about it must
// happen on the thread that stopped it.
type Tracee struct {
	PID   int // as seen here
	NSPid int // as its own pid namespace numbers it
	Name  string

	threads   []*thread // the first is the one that the process began with
	status    status
	handled   uint64   // which signals it has handled or ignored
	syscallAt uint64   // of a syscall instruction
	pidfd     *os.File // of the process, if it was needed
}

const (
	maxThreads = 4096
	allSignals = ^uint64(0)
)

// thread is one thread of a stopped process.
type thread struct {
	*ptrace.Thread
	threadState
	pending uint64 // signals for this thread alone
	rseqCS  uint64 // the restartable sequence that it is in the middle of, or 0
}

// threadState is what a thread was.
type threadState struct {
	NSPid    int              `json:"nspid"`
	Name     text             `json:"name"`
	Regs     ptrace.Registers `json:"registers"`
	XState   []byte           `json:"xstate"`
	Mask     uint64           `json:"mask"`
	Rseq     ptrace.RSeq      `json:"rseq"`
	Robust   [2]uint64        `json:"robust"` // head, size
	ClearTID uint64           `json:"clear_tid"`
	AltStack [24]byte         `json:"alt_stack"`
	// Queued are the signals that wait for this thread alone.
	Queued []ptrace.SignalInfo `json:"queued,omitempty"`
	scheduling
}

// StopProcess stops every thread of a process. If it fails, the process goes on: the
// caller ends the thread that called, since a thread of the process may be stuck.
func StopProcess(pid int) (*Tracee, error) {
	p := &Tracee{PID: pid}
	if err := p.stop(); err != nil {
		return nil, errors.Join(err, p.release())
	}
	if err := p.readThreads(); err != nil {
		return nil, errors.Join(err, p.Resume())
	}
	return p, nil
}

// stop seizes threads until no new ones are found: those that run may make more.
func (p *Tracee) stop() error {
	seen := map[int]bool{}
	for {
		tids, err := threadIDs(p.PID)
		if err != nil {
			return err
		}
		var fresh []int
		for _, tid := range tids {
			if !seen[tid] {
				seen[tid] = true
				fresh = append(fresh, tid)
			}
		}
		if len(fresh) == 0 {
			return nil
		}
		if len(seen) > maxThreads {
			p.readName()
			return p.refuse(false, "has more than %d threads", maxThreads)
		}
		if err := p.seize(fresh); err != nil {
			return err
		}
		// Those that are stopped make no others: if they are all, there are none.
		if n, err := countThreads(p.PID); err != nil || n == len(p.threads) {
			return err
		}
	}
}

// threadIDs lists the threads of a process, the one that it began with first.
func threadIDs(pid int) ([]int, error) {
	if n, err := countThreads(pid); err != nil || n == 1 {
		return []int{pid}, err
	}
	return taskIDs(pid)
}

func taskIDs(pid int) ([]int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, err
	}
	tids := []int{pid} // first
	for _, entry := range entries {
		if tid, err := strconv.Atoi(entry.Name()); err == nil && tid != pid {
			tids = append(tids, tid)
		}
	}
	return tids, nil
}

// seize stops threads: it asks all before it waits for any.
func (p *Tracee) seize(tids []int) error {
	var asked []*ptrace.Thread
	for _, tid := range tids {
		t, err := ptrace.Seize(tid)
		if errors.Is(err, unix.ESRCH) && tid != p.PID {
			continue // it has ended by itself
		}
		if err != nil {
			return p.explain(err)
		}
		asked = append(asked, t)
	}
	for _, t := range asked {
		err := t.Await()
		if errors.Is(err, ptrace.ErrGone) && t.TID != p.PID {
			err = t.Reap()
			if err == nil {
				continue
			}
		}
		if err != nil {
			return p.explain(err)
		}
		p.threads = append(p.threads, &thread{Thread: t})
	}
	return nil
}

// explain says what it means that a thread cannot be stopped.
func (p *Tracee) explain(err error) error {
	p.readName()
	switch {
	case errors.Is(err, ptrace.ErrStuck):
		return p.refuse(true, "waits in the kernel for something that cannot be interrupted, such as the program of a vfork")
	case errors.Is(err, unix.EPERM):
		return p.explainEPERM()
	}
	return err
}

// explainEPERM tells those who are traced from those who end.
func (p *Tracee) explainEPERM() error {
	s, err := readStatus(fmt.Sprintf("/proc/%d/status", p.PID))
	switch {
	case err != nil:
		return err
	case strings.HasPrefix(s.field("State"), "Z") && s.field("Threads") == "1":
		return os.NewSyscallError("ptrace", unix.ESRCH) // nobody has waited for it yet
	case strings.HasPrefix(s.field("State"), "Z"):
		return p.refuse(false, "has ended, but for other threads than its first")
	case s.field("TracerPid") == "0":
		return p.refuse(true, "has threads that end or executes another program")
	}
	return p.refuse(false, "is traced by another process")
}

// readName finds out what a process is called that could not be looked at.
func (p *Tracee) readName() {
	status, err := readStatus(fmt.Sprintf("/proc/%d/status", p.PID))
	if err != nil {
		return // it has ended, and has no name any more
	}
	p.Name = status.field("Name")
	if inside, err := status.nspid(); err == nil {
		p.NSPid = inside
	}
}

// readThreads reads what makes the threads what they are, apart from what only they
// themselves can ask the kernel for.
func (p *Tracee) readThreads() (err error) {
	if p.status, err = readStatus(fmt.Sprintf("/proc/%d/status", p.PID)); err != nil {
		return err
	}
	p.Name = p.status.field("Name")
	if p.NSPid, err = p.status.nspid(); err != nil {
		return err
	}
	waiting, err := p.readHandled()
	if err != nil {
		return err
	}
	for i, t := range p.threads {
		own := p.status
		if i > 0 {
			if own, err = readStatus(fmt.Sprintf("/proc/%d/task/%d/status", p.PID, t.TID)); err != nil {
				return err
			}
		}
		if err := t.read(own); err != nil {
			return err
		}
		waiting |= t.pending
	}
	for _, t := range p.threads {
		t.Careful = (p.handled|waiting)>>(unix.SIGTRAP-1)&1 != 0
	}
	return nil
}

// readHandled reads which signals the process treats otherwise than all do, and
// which wait for it.
func (p *Tracee) readHandled() (waiting uint64, err error) {
	caught, err := p.status.number("SigCgt", 16)
	if err != nil {
		return 0, err
	}
	ignored, err := p.status.number("SigIgn", 16)
	if err != nil {
		return 0, err
	}
	p.handled = caught | ignored
	return p.status.number("ShdPnd", 16)
}

func (t *thread) read(s status) (err error) {
	if t.NSPid, err = s.nspid(); err != nil {
		return err
	}
	t.Name = text(s.field("Name"))
	if t.pending, err = s.number("SigPnd", 16); err != nil {
		return err
	}
	if t.Regs, err = t.Thread.Registers(); err != nil {
		return err
	}
	if ptrace.Unnotice(&t.Regs) {
		if err := t.SetRegisters(&t.Regs); err != nil {
			return err
		}
	}
	if t.XState, err = t.Thread.Extended(); err != nil {
		return err
	}
	if t.Mask, err = t.SignalMask(); err != nil {
		return err
	}
	if t.Rseq, err = t.Thread.RSeq(); err != nil {
		return err
	}
	_, _, errno := syscall.RawSyscall(unix.SYS_GET_ROBUST_LIST, uintptr(t.TID), uintptr(unsafe.Pointer(&t.Robust[0])), uintptr(unsafe.Pointer(&t.Robust[1])))
	if errno != 0 {
		return os.NewSyscallError("get_robust_list", errno)
	}
	return nil
}

func (p *Tracee) read(address uint64, into []byte) error {
	return p.transfer(address, into, unix.ProcessVMReadv)
}

func (p *Tracee) write(address uint64, from []byte) error {
	return p.transfer(address, from, unix.ProcessVMWritev)
}

func (p *Tracee) transfer(address uint64, memory []byte, call func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error)) error {
	local := []unix.Iovec{{Base: &memory[0], Len: uint64(len(memory))}}
	n, err := call(p.PID, local, []unix.RemoteIovec{{Base: uintptr(address), Len: len(memory)}}, 0)
	if err == nil && n != len(memory) {
		err = unix.EFAULT
	}
	if err != nil {
		return fmt.Errorf("checkpoint: memory of process %d at %x: %w", p.PID, address, err)
	}
	return nil
}

// Resume lets the process go on exactly as it was when it was stopped.
func (p *Tracee) Resume() error {
	var errs []error
	if p.syscallAt != 0 {
		errs = append(errs, p.resumeRSeq())
		for _, t := range p.threads {
			errs = append(errs, t.SetRegisters(&t.Regs), t.SetSignalMask(t.Mask))
		}
	}
	return errors.Join(append(errs, p.release())...)
}

// release lets the threads go.
func (p *Tracee) release() error {
	var errs []error
	for _, t := range p.threads {
		err := t.Detach()
		if errors.Is(err, unix.ESRCH) { // killed
			if err = nil; t.TID != p.PID {
				err = t.Reap()
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("checkpoint: let process %d go: %w", p.PID, err))
		}
	}
	p.threads = nil
	if p.pidfd != nil {
		errs = append(errs, p.pidfd.Close())
		p.pidfd = nil
	}
	return errors.Join(errs...)
}
