package checkpoint

import (
	"slices"

	"aether/internal/host/ptrace"

	"golang.org/x/sys/unix"
)

// What registers of a 64-bit process may hold. The kernel looks at most of it too, when
// registers are set; that is after all else was made.
const (
	userCode  = 0x33
	userStack = 0x2b
	// userFlags are those that a process can set, and the two that are always set. Not
	// among them are the right to use devices (IOPL) and the mode of an 8086.
	userFlags = 0x254fd7
	// minXState is the least that a processor of 64 bits keeps of its extensions.
	minXState = 576
)

func (t *threadState) check() error {
	ordinary := slices.Contains([]int{unix.SCHED_NORMAL, unix.SCHED_BATCH, unix.SCHED_IDLE}, t.Policy&^unix.SCHED_RESET_ON_FORK)
	if len(t.Affinity) > maxProcessors/8 || len(t.XState) > maxExtended || !plainName(string(t.Name)) || !ordinary {
		return damaged("a thread with the number %d", t.NSPid)
	}
	if len(t.XState) < minXState || !plainRegisters(&t.Regs) {
		return damaged("the registers of thread %d", t.NSPid)
	}
	return checkQueued(t.Queued)
}

// plainRegisters says whether the registers are those of a process of 64 bits that runs
// its own code.
func plainRegisters(r *ptrace.Registers) bool {
	for _, selector := range []uint64{r.Ds, r.Es, r.Fs, r.Gs} {
		if selector != 0 && selector != userStack {
			return false
		}
	}
	return r.Cs == userCode && r.Ss == userStack && r.Eflags&^userFlags == 0 &&
		r.Rip < userEnd && r.Fs_base < userEnd && r.Gs_base < userEnd
}

// checkSyscall wants a system call to be where an image says that one is: it is made by
// all threads, and what else is there could take as long as it likes.
func (s *State) checkSyscall(child *Tracee) error {
	if s.PID != 0 {
		return nil // it was found there
	}
	var code [2]byte
	if err := child.read(s.syscallAt, code[:]); err != nil || code != [2]byte{0x0f, 0x05} {
		return damaged("process %d makes no system call at %x", s.NSPid, s.syscallAt)
	}
	return nil
}

// explainRegisters says what it means that the kernel does not take a thread's
// registers: one that lived had such.
func (s *State) explainRegisters(t *thread, err error) error {
	if err == nil || s.PID != 0 {
		return err
	}
	return damaged("the registers of thread %d: %v", t.NSPid, err)
}
