package checkpoint

import (
	"encoding/binary"
	"fmt"

	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// readTimers reads those of timer_create, but for how much is left of them.
func (s *State) readTimers() error {
	text, err := readProc(fmt.Sprintf("/proc/%d/timers", s.PID))
	if err != nil {
		return err
	}
	if s.PosixTimers, err = parseTimers(string(text)); err != nil {
		return err
	}
	for i := range s.PosixTimers {
		t := &s.PosixTimers[i]
		if t.Clock < 0 {
			return s.refuse(false, "has a timer of the time that another process or a thread has run (clock %d)", t.Clock)
		}
		if t.ID < 0 || t.ID >= maxTimers {
			return s.refuse(false, "has a timer with the number %d", t.ID)
		}
		if t.Thread == 0 {
			continue
		}
		if t.Thread = s.nspidOfThread(t.Thread); t.Thread == 0 {
			return s.refuse(true, "has a timer of a thread that has ended")
		}
	}
	return nil
}

func (s *State) nspidOfThread(tid int) int {
	for _, t := range s.threads {
		if t.TID == tid {
			return t.NSPid
		}
	}
	return 0
}

// timerCalls ask how much time is left.
func (s *State) timerCalls() (list []parasiteCall) {
	leader := s.threads[0]
	for which := range s.Intervals {
		list = append(list, parasiteCall{thread: leader, nr: unix.SYS_GETITIMER, args: []uint64{uint64(which), 0}, buffer: s.Intervals[which][:], bufferArg: 1})
	}
	for i := range s.PosixTimers {
		t := &s.PosixTimers[i]
		list = append(list, parasiteCall{thread: leader, nr: unix.SYS_TIMER_GETTIME, args: []uint64{uint64(t.ID), 0}, buffer: t.Spec[:], bufferArg: 1})
	}
	return list
}

// RestoreTimers appends the making of timers, each with its old number: the kernel gives
// numbers one after another. The threads that they signal must be there.
func (s *State) RestoreTimers(script *spawn.Script) {
	b := memorySteps{Script: script, state: s}
	wanted := map[int]posixTimer{}
	last := -1
	for _, t := range s.PosixTimers {
		wanted[t.ID], last = t, max(last, t.ID)
	}
	for id := range last + 1 {
		b.makeTimer(wanted[id])
	}
	for id := range last + 1 {
		t, ok := wanted[id]
		switch {
		case !ok:
			b.Call(unix.SYS_TIMER_DELETE, uintptr(id))
		case t.Spec != [32]byte{}:
			b.Call(unix.SYS_TIMER_SETTIME, uintptr(id), 0, b.bytes(t.Spec[:]), 0)
		}
	}
}

func (b memorySteps) makeTimer(t posixTimer) {
	event, mem := b.Bytes(64) // struct sigevent
	binary.NativeEndian.PutUint64(mem, t.Value)
	binary.NativeEndian.PutUint32(mem[8:], uint32(t.Signal))
	binary.NativeEndian.PutUint32(mem[12:], uint32(t.Notify))
	binary.NativeEndian.PutUint32(mem[16:], uint32(t.Thread))
	if t.Signal == 0 && t.Notify == notifySignal { // one that only has a number
		binary.NativeEndian.PutUint32(mem[12:], notifyNone)
	}
	id, _ := b.Bytes(8)
	b.Call(unix.SYS_TIMER_CREATE, uintptr(t.Clock), event, id)
}

// running gives an interval timer (an itimerval: how often, then how much is left)
// that has ended what is left of it: the kernel sets it going again only when its
// signal, which waits, is delivered.
func running(timer [32]byte) [32]byte {
	if [16]byte(timer[16:]) == ([16]byte{}) {
		copy(timer[16:], timer[:16])
	}
	return timer
}
