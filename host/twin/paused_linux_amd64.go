package twin

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"aether/host/ptrace"

	"golang.org/x/sys/unix"
)

// Paused is a process all of whose threads are stopped. Everything about it must
// happen on the thread that paused it.
type Paused struct {
	PID    int // as seen here
	Inside int // as its own pid namespace numbers it
	Name   string

	threads []*thread // the first is the one that the process began with
	status  status
	site    uint64 // of a syscall instruction
	scratch uint64 // memory that was saved, for calls to write to
	saved   [scratchSize]byte
}

const (
	scratchSize = 256
	maxThreads  = 4096
	allSignals  = ^uint64(0)
)

// thread is one thread of a paused process, as it was.
type thread struct {
	*ptrace.Thread
	inside   int
	name     string
	regs     ptrace.Registers
	extended []byte
	mask     uint64
	pending  uint64 // signals for this thread alone
	rseq     ptrace.RSeq
	robust   [2]uint64 // head, size
	clearTID uint64
	altStack [24]byte
	queued   []ptrace.SignalInfo // those signals
	sched    scheduling
}

// Pause stops every thread of a process. If it fails, the process goes on: the
// caller ends the thread that called, since a thread of the process may be stuck.
func Pause(pid int) (*Paused, error) {
	p := &Paused{PID: pid}
	if err := p.stop(); err != nil {
		return nil, errors.Join(err, p.release())
	}
	if err := p.look(); err != nil {
		return nil, errors.Join(err, p.Resume())
	}
	return p, nil
}

// stop seizes threads until no new ones are found: those that run may make more.
func (p *Paused) stop() error {
	seen := map[int]bool{}
	for {
		tids, err := taskIDs(p.PID)
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
			p.introduce()
			return refuse(p.Inside, p.Name, fmt.Sprintf("has more than %d threads", maxThreads), false)
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
func (p *Paused) seize(tids []int) error {
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
func (p *Paused) explain(err error) error {
	p.introduce()
	switch {
	case errors.Is(err, ptrace.ErrStuck):
		return refuse(p.Inside, p.Name, "waits in the kernel for something that cannot be interrupted, such as the program of a vfork", true)
	case errors.Is(err, unix.EPERM):
		return p.explainEPERM()
	}
	return err
}

// explainEPERM tells those who are traced from those who end.
func (p *Paused) explainEPERM() error {
	s, err := readStatus(fmt.Sprintf("/proc/%d/status", p.PID))
	switch {
	case err != nil:
		return err
	case strings.HasPrefix(s.field("State"), "Z"):
		return refuse(p.Inside, p.Name, "has ended, but for other threads than its first", false)
	case s.field("TracerPid") == "0":
		return refuse(p.Inside, p.Name, "has threads that end or executes another program", true)
	}
	return refuse(p.Inside, p.Name, "is traced by another process", false)
}

// introduce finds out what a process is called that could not be looked at.
func (p *Paused) introduce() {
	status, err := readStatus(fmt.Sprintf("/proc/%d/status", p.PID))
	if err != nil {
		return // it has ended, and has no name any more
	}
	p.Name = status.field("Name")
	if inside, err := status.inside(); err == nil {
		p.Inside = inside
	}
}

// look reads what makes the threads what they are, apart from what only they
// themselves can ask the kernel for.
func (p *Paused) look() (err error) {
	if p.status, err = readStatus(fmt.Sprintf("/proc/%d/status", p.PID)); err != nil {
		return err
	}
	p.Name = p.status.field("Name")
	if p.Inside, err = p.status.inside(); err != nil {
		return err
	}
	for i, t := range p.threads {
		own := p.status
		if i > 0 {
			if own, err = readStatus(fmt.Sprintf("/proc/%d/task/%d/status", p.PID, t.TID)); err != nil {
				return err
			}
		}
		if err := t.look(own); err != nil {
			return err
		}
	}
	return nil
}

func (t *thread) look(s status) (err error) {
	if t.inside, err = s.inside(); err != nil {
		return err
	}
	t.name = s.field("Name")
	if t.pending, err = s.number("SigPnd", 16); err != nil {
		return err
	}
	if t.regs, err = t.Registers(); err != nil {
		return err
	}
	if ptrace.Unnotice(&t.regs) {
		if err := t.SetRegisters(&t.regs); err != nil {
			return err
		}
	}
	if t.extended, err = t.Extended(); err != nil {
		return err
	}
	if t.mask, err = t.SignalMask(); err != nil {
		return err
	}
	if t.rseq, err = t.RSeq(); err != nil {
		return err
	}
	_, _, errno := syscall.RawSyscall(unix.SYS_GET_ROBUST_LIST, uintptr(t.TID), uintptr(unsafe.Pointer(&t.robust[0])), uintptr(unsafe.Pointer(&t.robust[1])))
	if errno != 0 {
		return os.NewSyscallError("get_robust_list", errno)
	}
	return nil
}

// ask finds out what only the threads themselves can: it has them make system
// calls. Afterwards only resume undoes that.
func (p *Paused) ask(areas []Area) (a answers, err error) {
	if err := p.prepareCalls(areas); err != nil {
		return a, err
	}
	for _, t := range p.threads {
		if err := t.SetSignalMask(allSignals); err != nil {
			return a, err
		}
	}
	for _, t := range p.threads {
		if err := p.askThread(t); err != nil {
			return a, err
		}
	}
	return p.askProcess()
}

// answers are what the process as a whole said.
type answers struct {
	brk     uint64
	actions map[int][32]byte
	timers  [3][32]byte
}

func (p *Paused) askThread(t *thread) error {
	if err := p.askMemory(t, t.altStack[:], unix.SYS_SIGALTSTACK, 0, p.scratch); err != nil {
		return err
	}
	var address [8]byte
	if err := p.askMemory(t, address[:], unix.SYS_PRCTL, unix.PR_GET_TID_ADDRESS, p.scratch); err != nil {
		return err
	}
	t.clearTID = binary.LittleEndian.Uint64(address[:])
	return nil
}

func (p *Paused) askProcess() (a answers, err error) {
	leader := p.threads[0]
	brk, err := leader.Call(&leader.regs, p.site, unix.SYS_BRK, 0)
	if err != nil {
		return a, err
	}
	a.brk = uint64(brk)
	caught, err := p.status.number("SigCgt", 16)
	if err != nil {
		return a, err
	}
	ignored, err := p.status.number("SigIgn", 16)
	if err != nil {
		return a, err
	}
	a.actions = map[int][32]byte{}
	for signal := 1; signal <= 64; signal++ {
		if (caught|ignored)>>(signal-1)&1 == 0 {
			continue
		}
		var action [32]byte
		if err := p.askMemory(leader, action[:], unix.SYS_RT_SIGACTION, uint64(signal), 0, p.scratch, 8); err != nil {
			return a, err
		}
		a.actions[signal] = action
	}
	return a, nil
}

// askMemory has a thread make a call that writes its answer to the scratch. That
// stays there until putBack.
func (p *Paused) askMemory(t *thread, answer []byte, nr uintptr, args ...uint64) error {
	result, err := t.Call(&t.regs, p.site, nr, args...)
	if err == nil && result < 0 {
		err = syscall.Errno(-result)
	}
	if err != nil {
		return fmt.Errorf("twin: process %d, call %d: %w", p.PID, nr, err)
	}
	return p.read(p.scratch, answer)
}

// putBack restores the scratch, before anything of the process is copied.
func (p *Paused) putBack() error { return p.write(p.scratch, p.saved[:]) }

// prepareCalls finds an instruction to make calls with and memory for answers.
func (p *Paused) prepareCalls(areas []Area) error {
	if err := p.findSite(areas); err != nil {
		return err
	}
	for _, a := range areas {
		if a.Write && !a.Shared && a.Name != "[stack]" {
			p.scratch = a.Start
			return p.read(p.scratch, p.saved[:])
		}
	}
	return refuse(p.Inside, p.Name, "has no memory of its own", false)
}

var syscallCode = [2]byte{0x0f, 0x05}

// findSite finds a syscall instruction: that by which a thread waits in the
// kernel or one of the vdso.
func (p *Paused) findSite(areas []Area) error {
	for _, t := range p.threads {
		var code [2]byte
		if p.read(t.regs.Rip-2, code[:]) == nil && code == syscallCode && int64(t.regs.Orig_rax) >= 0 {
			p.site = t.regs.Rip - 2
			return nil
		}
	}
	for _, a := range areas {
		if a.Name != "[vdso]" {
			continue
		}
		code := make([]byte, a.Size())
		if err := p.read(a.Start, code); err != nil {
			return err
		}
		for i := range len(code) - 1 {
			if [2]byte(code[i:]) == syscallCode {
				p.site = a.Start + uint64(i)
				return nil
			}
		}
	}
	return refuse(p.Inside, p.Name, "has no instruction to make system calls with", true)
}

func (p *Paused) read(address uint64, into []byte) error {
	return p.transfer(address, into, unix.ProcessVMReadv)
}

func (p *Paused) write(address uint64, from []byte) error {
	return p.transfer(address, from, unix.ProcessVMWritev)
}

func (p *Paused) transfer(address uint64, memory []byte, call func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error)) error {
	local := []unix.Iovec{{Base: &memory[0], Len: uint64(len(memory))}}
	n, err := call(p.PID, local, []unix.RemoteIovec{{Base: uintptr(address), Len: len(memory)}}, 0)
	if err == nil && n != len(memory) {
		err = unix.EFAULT
	}
	if err != nil {
		return fmt.Errorf("twin: memory of process %d at %x: %w", p.PID, address, err)
	}
	return nil
}

// Resume lets the process go on exactly as it was when it was paused.
func (p *Paused) Resume() error {
	var errs []error
	if p.scratch != 0 {
		errs = append(errs, p.write(p.scratch, p.saved[:]))
	}
	for _, t := range p.threads {
		if p.site != 0 {
			errs = append(errs, t.SetRegisters(&t.regs), t.SetSignalMask(t.mask))
		}
	}
	return errors.Join(append(errs, p.release())...)
}

// release lets the threads go.
func (p *Paused) release() error {
	var errs []error
	for _, t := range p.threads {
		err := t.Detach()
		if errors.Is(err, unix.ESRCH) { // killed
			if err = nil; t.TID != p.PID {
				err = t.Reap()
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("twin: let process %d go: %w", p.PID, err))
		}
	}
	p.threads = nil
	return errors.Join(errs...)
}
