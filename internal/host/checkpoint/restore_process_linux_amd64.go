package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"aether/internal/host/ptrace"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// Tid is the number that the child must be born with.
func (s *State) Tid() int { return s.NSPid }

// Single says whether the process had one thread.
func (s *State) Single() bool { return len(s.threads) == 1 }

// RestoreProcess appends the steps by which a fork of the zygote becomes what the
// process was beside its memory: how it treats signals, its timers, names and
// limits.
func (s *State) RestoreProcess(script *spawn.Script) {
	b := memorySteps{Script: script, state: s}
	for signal, action := range s.Actions {
		b.Call(unix.SYS_RT_SIGACTION, uintptr(signal), b.bytes(action[:]), 0, 8)
	}
	for which, timer := range s.Intervals {
		if timer != ([32]byte{}) {
			timer = running(timer)
			b.Call(unix.SYS_SETITIMER, uintptr(which), b.bytes(timer[:]), 0)
		}
	}
	b.Call(unix.SYS_PERSONALITY, uintptr(s.Personality))
	b.Call(unix.SYS_UMASK, uintptr(s.Umask))
	b.processFlags()
	b.thread(s.threads[0])
	b.Call(unix.SYS_SET_TID_ADDRESS, uintptr(s.threads[0].ClearTID))
}

// RestoreLimits appends the resource limits of the process. What it could not raise, it
// does not.
func (s *State) RestoreLimits(script *spawn.Script) {
	b := memorySteps{Script: script, state: s}
	for i, limit := range s.Limits {
		address, mem := b.Bytes(16)
		binary.NativeEndian.PutUint64(mem, limit.Cur)
		binary.NativeEndian.PutUint64(mem[8:], limit.Max)
		b.Call(unix.SYS_PRLIMIT64, 0, uintptr(i), address, 0).MayFail()
	}
}

func (b memorySteps) bytes(data []byte) uintptr {
	address, mem := b.Bytes(len(data))
	copy(mem, data)
	return address
}

// thread appends what a thread sets for itself.
func (b memorySteps) thread(t *thread) {
	b.Call(unix.SYS_PRCTL, unix.PR_SET_NAME, b.String(string(t.Name)))
	b.scheduling(t)
	b.sendPending(t)
	if t.Robust[0] != 0 {
		b.Call(unix.SYS_SET_ROBUST_LIST, uintptr(t.Robust[0]), uintptr(t.Robust[1]))
	}
	const disabled = 2 // SS_DISABLE
	if flags := binary.NativeEndian.Uint32(t.AltStack[8:]); flags&disabled == 0 {
		set := t.AltStack
		binary.NativeEndian.PutUint32(set[8:], flags&^1) // that it is in use is not to be set
		b.Call(unix.SYS_SIGALTSTACK, b.bytes(set[:]), 0)
	}
}

// threadFlags are what the C library passes for a thread.
const threadFlags = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD | unix.CLONE_SYSVSEM

// RestoreThreads appends the making of the other threads, each with its old number.
// own appends what each must do itself before it waits to be continued. The
// first thread goes on when all of them are there.
func (s *State) RestoreThreads(script *spawn.Script, own func()) {
	b := memorySteps{Script: script, state: s}
	clones := make([]spawn.Step, 0, len(s.threads))
	var ready []spawn.Word
	for _, t := range s.threads[1:] {
		clones = append(clones, script.Clone(spawn.Clone{Flags: threadFlags, Tids: []int{t.NSPid}, ClearTID: t.ClearTID, Cgroup: -1}))
		ready = append(ready, script.Word())
	}
	for _, word := range ready {
		script.WaitAny(word)
	}
	if len(clones) == 0 {
		return
	}
	over := script.JumpLater()
	for i, t := range s.threads[1:] {
		script.Land(clones[i])
		b.thread(t)
		own()
		script.Signal(ready[i])
		script.Park()
	}
	script.Land(over)
}

// RestoreRegisters makes a child whose threads have all made their steps what the process
// was when it was stopped. It goes on from there when it is released, which is
// the caller's to do, whether or not this fails. It must be called on a thread
// for tracing.
func (s *State) RestoreRegisters(pid int, script *spawn.Shared) (child *Tracee, err error) {
	child = &Tracee{PID: pid}
	// Nothing but the script has run in it, so there are no others.
	tids := []int{pid}
	if len(s.threads) > 1 {
		if tids, err = taskIDs(pid); err != nil {
			return child, err
		}
	}
	if err := child.seize(tids); err != nil {
		return child, err
	}
	if len(child.threads) != len(s.threads) {
		return child, fmt.Errorf("checkpoint: the child has %d threads, not %d", len(child.threads), len(s.threads))
	}
	if err := s.putRegisters(child, script); err != nil {
		return child, err
	}
	if s.Stopped {
		// Whichever thread is let go first stops all of them, at once.
		err = os.NewSyscallError("kill", unix.Kill(pid, unix.SIGSTOP))
	}
	return child, err
}

// Release lets a child go on.
func (p *Tracee) Release() error { return p.release() }

func (s *State) putRegisters(child *Tracee, script *spawn.Shared) error {
	child.threads[0].NSPid = s.threads[0].NSPid
	for i, t := range child.threads {
		var err error
		if i > 0 {
			if t.NSPid, err = nspidOf(child.PID, t.TID); err != nil {
				return err
			}
		}
		if t.Regs, err = t.Thread.Registers(); err != nil {
			return err
		}
	}
	if err := s.checkSyscall(child); err != nil {
		return err
	}
	leader := child.threads[0]
	leader.Careful = s.usesTraps()
	at, _, size := script.Mapping()
	if result, err := leader.Call(&leader.Regs, s.syscallAt, unix.SYS_MUNMAP, uint64(at), uint64(size)); err != nil || result != 0 {
		return fmt.Errorf("checkpoint: unmap the script: %d, %w", result, err)
	}
	for _, t := range child.threads {
		was := s.threadByNSPid(t.NSPid)
		if was == nil {
			return fmt.Errorf("checkpoint: the child has a thread %d", t.NSPid)
		}
		t.Careful = leader.Careful
		if err := s.putRSeq(child, t, was); err != nil {
			return err
		}
		regs := was.Regs
		ptrace.RestartCall(&regs)
		err := errors.Join(t.SetExtended(was.XState), t.SetRegisters(&regs), t.SetSignalMask(was.Mask))
		if err := s.explainRegisters(was, err); err != nil {
			return err
		}
	}
	return child.resumeRSeq()
}

// nspidOf is the number that a thread has in its own pid namespace.
func nspidOf(pid, tid int) (int, error) {
	status, err := readStatus(fmt.Sprintf("/proc/%d/task/%d/status", pid, tid))
	if err != nil {
		return 0, err
	}
	return status.nspid()
}

// putRSeq registers a thread for restartable sequences. That is not among the
// steps of the script: memory of the source's could have the kernel go on
// elsewhere than at the next step.
func (s *State) putRSeq(child *Tracee, t, was *thread) error {
	if was.Rseq.Pointer == 0 {
		return nil
	}
	t.Rseq = was.Rseq
	if err := child.suspendRSeq(t); err != nil {
		return err
	}
	result, err := t.Call(&t.Regs, s.syscallAt, unix.SYS_RSEQ, was.Rseq.Pointer, uint64(was.Rseq.Size), 0, uint64(was.Rseq.Signature))
	if err != nil || result != 0 {
		return fmt.Errorf("checkpoint: rseq: %d, %v", result, err)
	}
	return nil
}

func (s *State) threadByNSPid(inside int) *thread {
	for _, t := range s.threads {
		if t.NSPid == inside {
			return t
		}
	}
	return nil
}
