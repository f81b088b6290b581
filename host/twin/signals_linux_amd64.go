package twin

import (
	"encoding/binary"
	"os"

	"aether/host/ptrace"

	"golang.org/x/sys/unix"
)

// maxPending bounds the signals that wait, of a thread or of the process.
const maxPending = 1024

// readPending reads which signals wait to be delivered.
func (s *State) readPending() (err error) {
	shared, err := s.status.number("ShdPnd", 16)
	if err != nil {
		return err
	}
	if s.queued, err = s.pendingOf(s.threads[0], true, shared); err != nil {
		return err
	}
	for _, t := range s.threads {
		if t.queued, err = s.pendingOf(t, false, t.pending); err != nil {
			return err
		}
	}
	return nil
}

func (s *State) pendingOf(t *thread, process bool, set uint64) ([]ptrace.SignalInfo, error) {
	if set == 0 {
		return nil, nil
	}
	if set&(1<<(unix.SIGKILL-1)|1<<(unix.SIGSTOP-1)) != 0 {
		return nil, s.refuse(true, "is being stopped or killed")
	}
	list, err := t.Pending(process, maxPending)
	if err != nil {
		return nil, os.NewSyscallError("ptrace", err)
	}
	if len(list) == maxPending {
		return nil, s.refuse(true, "has more than %d signals pending", maxPending)
	}
	for i := range list {
		set &^= 1 << (list[i].Number() - 1)
	}
	for signal := 1; set != 0; signal, set = signal+1, set>>1 {
		if set&1 != 0 { // one of which nothing is known
			var info ptrace.SignalInfo
			binary.NativeEndian.PutUint32(info[:], uint32(signal))
			list = append(list, info)
		}
	}
	return list, nil
}

// blockSignals appends that none is delivered until the process goes on as it
// was: what would handle them is there before it is.
func (b builder) blockSignals() {
	all := b.Int64(-1)
	b.Call(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, all, 0, 8)
}

// sendPending appends the sending of signals that waited, by those for whom they
// are: to others the kernel lets nobody say that it was itself who sent them.
func (b builder) sendPending(t *thread) {
	process := uintptr(b.state.Inside)
	if t == b.state.threads[0] {
		for _, info := range b.state.queued {
			b.Call(unix.SYS_RT_SIGQUEUEINFO, process, uintptr(info.Number()), b.bytes(info[:]))
		}
	}
	for _, info := range t.queued {
		b.Call(unix.SYS_RT_TGSIGQUEUEINFO, process, uintptr(t.inside), uintptr(info.Number()), b.bytes(info[:]))
	}
}
