package checkpoint

import (
	"encoding/binary"
	"os"

	"aether/internal/host/ptrace"

	"golang.org/x/sys/unix"
)

// maxPending bounds the signals that wait, of a thread or of the process.
const maxPending = 1024

// readPending reads which signals wait to be delivered. It must be now, and not
// when the process was stopped: others, which were stopped later, may have sent it
// some since.
func (s *State) readPending() error {
	shared, err := s.status.number("ShdPnd", 16)
	if err != nil {
		return err
	}
	if s.Queued, err = s.pendingOf(s.threads[0], true, shared); err != nil {
		return err
	}
	for _, t := range s.threads {
		if t.Queued, err = s.pendingOf(t, false, t.pending); err != nil {
			return err
		}
	}
	return nil
}

func (s *State) countQueued() int {
	n := len(s.Queued)
	for _, t := range s.threads {
		n += len(t.Queued)
	}
	return n
}

// pendingOf lists the signals that wait. set are those of which the kernel told
// before: for some it keeps no more than that they came.
func (s *State) pendingOf(t *thread, process bool, set uint64) ([]ptrace.SignalInfo, error) {
	const usual = 4
	list, err := t.Pending(process, usual)
	if err == nil && len(list) == usual {
		list, err = t.Pending(process, maxPending)
	}
	if err != nil {
		return nil, os.NewSyscallError("ptrace", err)
	}
	if len(list) == maxPending {
		return nil, s.refuse(true, "has more than %d signals pending", maxPending)
	}
	for i := range list {
		if n := list[i].Number(); n == int(unix.SIGKILL) || n == int(unix.SIGSTOP) {
			return nil, s.refuse(true, "is being stopped or killed")
		}
	}
	if set&(1<<(unix.SIGKILL-1)|1<<(unix.SIGSTOP-1)) != 0 {
		return nil, s.refuse(true, "is being stopped or killed")
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

// sendPending appends the sending of signals that waited, by those for whom they
// are: to others the kernel lets nobody say that it was itself who sent them. All
// are blocked until the process goes on as it was.
func (b memorySteps) sendPending(t *thread) {
	process := uintptr(b.state.NSPid)
	if t == b.state.threads[0] {
		for _, info := range b.state.Queued {
			b.Call(unix.SYS_RT_SIGQUEUEINFO, process, uintptr(info.Number()), b.bytes(info[:]))
		}
	}
	for _, info := range t.Queued {
		b.Call(unix.SYS_RT_TGSIGQUEUEINFO, process, uintptr(t.NSPid), uintptr(info.Number()), b.bytes(info[:]))
	}
}
