package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"unsafe"

	"aether/internal/host/ptrace"

	"golang.org/x/sys/unix"
)

// answers are what only the process itself can say.
type answers struct {
	brk     uint64
	actions map[int][32]byte
	timers  [3][32]byte
	habits
}

// question is a system call by which a thread says something of itself.
type question struct {
	thread *thread
	nr     uintptr
	args   []uint64
	// answer is what the call writes to the address that is its argument at
	// place, or nil.
	answer []byte
	place  int
	result *int64 // or nil: then it must be 0
	// absent is what a kernel answers that does not have the call, or 0 if all do.
	// Then result stays as it is.
	absent syscall.Errno
}

// room is memory that a process lends while it is asked: for what it is to do, and
// for what it says.
type room struct {
	at    uint64
	saved [pageSize]byte
	code  uint64 // where a program can be put that makes many calls, or 0
}

// ask finds out what only the process can say: it has its threads make system
// calls. Afterwards only Resume undoes that. beside runs meanwhile.
func (s *State) ask(beside func() error) error {
	if err := s.findSite(); err != nil {
		return err
	}
	for _, t := range s.threads {
		if err := errors.Join(s.leaveSequence(t), t.SetSignalMask(allSignals)); err != nil {
			return err
		}
	}
	r, err := s.openRoom()
	if err != nil {
		return err
	}
	return errors.Join(s.askAtOnce(r, beside), s.closeRoom(r), s.writeSequences())
}

// openRoom takes the first page that the process can write and nobody else uses,
// and for the program the first that it executes. Debuggers put their breakpoints
// there in the same way: the page becomes one of the process's own.
func (s *State) openRoom() (*room, error) {
	free := func(a Area) bool { return a.Write && !a.Shared && a.Name != "[stack]" && !s.registered(a.Start) }
	i := slices.IndexFunc(s.areas, free)
	if i < 0 {
		return nil, s.refuse(false, "has no memory of its own")
	}
	r := &room{at: s.areas[i].Start}
	if err := s.read(r.at, r.saved[:]); err != nil {
		return nil, err
	}
	s.readCode()
	if s.codeAt != 0 && s.threads[0].Poke(s.codeAt, ptrace.Calls) == nil {
		r.code = s.codeAt
	}
	return r, nil
}

// readCode reads the page that a program can be put to, if there is one.
func (s *State) readCode() {
	for _, a := range s.areas {
		if a.Exec && a.Read && !a.Shared && a.file() && !special(a) {
			page := make([]byte, pageSize)
			if s.read(a.Start, page) == nil {
				s.codeAt, s.code = a.Start, page
			}
			return
		}
	}
}

// closeRoom puts everything back as it was.
func (s *State) closeRoom(r *room) error {
	err := s.write(r.at, r.saved[:])
	if r.code != 0 {
		err = errors.Join(err, s.threads[0].Poke(r.code, s.code[:len(ptrace.Calls)]))
	}
	return err
}

// sameCode says whether the page that a program was put to is again as it was in
// an earlier state, though it has been written since.
func (s *State) sameCode(was *State) bool {
	return was != nil && s.codeAt != 0 && s.codeAt == was.codeAt && bytes.Equal(s.code, was.code)
}

// askAtOnce asks, and reads the signals that wait. A timer that ends between the
// two would be lost, or be there twice: then timers are asked for again. They go on
// only when their signals are delivered.
func (s *State) askAtOnce(r *room, beside func() error) error {
	if err := s.readPending(); err != nil {
		return err
	}
	list, done := s.questions()
	list = append(list, s.timerQuestions()...)
	const tries = 4
	for range tries {
		before := s.countQueued()
		if err := s.answer(r, list, beside); err != nil {
			return err
		}
		if err := s.readPending(); err != nil {
			return err
		}
		if s.countQueued() == before {
			return done()
		}
		list, beside = s.timerQuestions(), nothing
	}
	return s.refuse(true, "is sent signals too fast")
}

// questions are those that need to be asked once, the first thread's last. done
// takes in the answers.
func (s *State) questions() (list []question, done func() error) {
	for _, t := range slices.Backward(s.threads) {
		list = append(list,
			question{thread: t, nr: unix.SYS_SIGALTSTACK, args: []uint64{0, 0}, answer: t.altStack[:], place: 1},
			question{thread: t, nr: unix.SYS_PRCTL, args: []uint64{unix.PR_GET_TID_ADDRESS, 0}, answer: memoryOf(&t.clearTID), place: 1})
	}
	leader := s.threads[0]
	var (
		brk, dumpable int64
		subreaper     int32
		barriers      int64 = allBarriers
	)
	list = append(list,
		question{thread: leader, nr: unix.SYS_BRK, args: []uint64{0}, result: &brk},
		question{thread: leader, nr: unix.SYS_PRCTL, args: []uint64{unix.PR_GET_DUMPABLE}, result: &dumpable},
		question{thread: leader, nr: unix.SYS_PRCTL, args: []uint64{unix.PR_GET_CHILD_SUBREAPER, 0}, answer: memoryOf(&subreaper), place: 1},
		question{thread: leader, nr: unix.SYS_MEMBARRIER, args: []uint64{barrierRegistrations, 0, 0}, result: &barriers, absent: unix.EINVAL})
	var actions [65][32]byte
	for signal := range actions {
		if s.treats(signal) {
			list = append(list, question{thread: leader, nr: unix.SYS_RT_SIGACTION, args: []uint64{uint64(signal), 0, 0, 8}, answer: actions[signal][:], place: 2})
		}
	}
	objects, refuse := s.sysvQuestions()
	return append(list, objects...), func() error {
		s.brk, s.subreaper, s.undumpable, s.barriers = uint64(brk), subreaper != 0, dumpable == 0, barriers&allBarriers
		s.actions = map[int][32]byte{}
		for signal := range actions {
			if s.treats(signal) {
				s.actions[signal] = actions[signal]
			}
		}
		return refuse()
	}
}

// treats says whether the process has a signal handled or ignored.
func (p *Paused) treats(signal int) bool { return signal > 0 && p.treated>>(signal-1)&1 != 0 }

func memoryOf[T any](value *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(value)), unsafe.Sizeof(*value))
}

func nothing() error { return nil }

// answer has the process answer questions, of which those for one thread follow
// each other.
func (s *State) answer(r *room, list []question, beside func() error) error {
	if r.code == 0 {
		for _, q := range list {
			if err := s.answerOne(r, q); err != nil {
				return err
			}
		}
		return beside()
	}
	for len(list) > 0 {
		n, size := 0, 0
		for n < len(list) && size+ptrace.CallSize+roundUp(len(list[n].answer)) <= pageSize {
			size += ptrace.CallSize + roundUp(len(list[n].answer))
			n++
		}
		if err := s.answerMany(r, list[:n], beside); err != nil {
			return err
		}
		list, beside = list[n:], nothing
	}
	return nil
}

func roundUp(size int) int { return (size + 7) &^ 7 }

func (s *State) answerOne(r *room, q question) error {
	if q.answer != nil {
		q.args[q.place] = r.at
	}
	result, err := q.thread.Call(&q.thread.regs, s.site, q.nr, q.args...)
	if err == nil {
		err = q.settle(result)
	}
	if err == nil && q.answer != nil {
		err = s.read(r.at, q.answer)
	}
	return err
}

// settle takes the result.
func (q question) settle(result int64) error {
	if q.absent != 0 && result == -int64(q.absent) {
		return nil
	}
	if result < 0 && result > -4096 || q.result == nil && result != 0 {
		return fmt.Errorf("twin: thread %d, call %d: %w", q.thread.TID, q.nr, syscall.Errno(-result))
	}
	if q.result != nil {
		*q.result = result
	}
	return nil
}

// answerMany has threads make all the calls, with one stop each.
func (s *State) answerMany(r *room, list []question, beside func() error) error {
	memory := make([]byte, pageSize)
	at := ptrace.CallSize * len(list)
	for i, q := range list {
		if q.answer != nil {
			q.args[q.place] = r.at + uint64(at)
			at += roundUp(len(q.answer))
		}
		ptrace.PutCall(memory[ptrace.CallSize*i:], q.nr, q.args...)
	}
	memory = memory[:at]
	if err := s.write(r.at, memory); err != nil {
		return err
	}
	if err := s.makeCalls(r, list, beside); err != nil {
		return err
	}
	if err := s.read(r.at, memory); err != nil {
		return err
	}
	answers := memory[ptrace.CallSize*len(list):]
	for i, q := range list {
		if err := q.settle(ptrace.CallResult(memory[ptrace.CallSize*i:])); err != nil {
			return err
		}
		copy(q.answer, answers)
		answers = answers[roundUp(len(q.answer)):]
	}
	return nil
}

// makeCalls has every thread make its own, all at the same time.
func (s *State) makeCalls(r *room, list []question, beside func() error) error {
	type beginning struct {
		thread *thread
		last   uint64 // where the result of its last call is
	}
	var begun []beginning
	var errs []error
	for first := r.at; len(list) > 0; {
		t, n := list[0].thread, 1
		for n < len(list) && list[n].thread == t {
			n++
		}
		if err := t.Begin(&t.regs, r.code, first, n); err != nil {
			errs = append(errs, err)
			break
		}
		first, list = first+uint64(n)*ptrace.CallSize, list[n:]
		begun = append(begun, beginning{t, first - ptrace.CallSize + ptrace.ResultAt})
	}
	errs = append(errs, beside())
	for _, b := range begun {
		errs = append(errs, b.thread.Finish(func() (bool, error) {
			var result int64
			err := s.read(b.last, memoryOf(&result))
			return result != ptrace.NoResult, err
		}))
	}
	return errors.Join(errs...)
}

// sequenceAt is where in its registration a thread says that it is in a
// restartable sequence.
const sequenceAt = 8

// leaveSequence keeps in which one a thread is, and has the kernel not know. It
// would forget by itself as soon as the thread is elsewhere, so that the thread went
// on in the middle of it; and first read of memory that may have been lent. If that
// is not there the kernel will end the process.
func (p *Paused) leaveSequence(t *thread) error {
	if t.rseq.Pointer == 0 || p.read(t.rseq.Pointer+sequenceAt, memoryOf(&t.sequence)) != nil || t.sequence == 0 {
		return nil
	}
	return p.write(t.rseq.Pointer+sequenceAt, make([]byte, 8))
}

// writeSequences tells the kernel again.
func (p *Paused) writeSequences() error {
	var errs []error
	for _, t := range p.threads {
		if t.sequence != 0 {
			errs = append(errs, p.write(t.rseq.Pointer+sequenceAt, memoryOf(&t.sequence)))
		}
	}
	return errors.Join(errs...)
}

// registered says whether the kernel writes to a page of the process's whenever a
// thread of it runs.
func (p *Paused) registered(page uint64) bool {
	return slices.ContainsFunc(p.threads, func(t *thread) bool {
		return t.rseq.Pointer < page+pageSize && t.rseq.Pointer+uint64(t.rseq.Size) > page
	})
}

var syscallCode = [2]byte{0x0f, 0x05}

// findSite finds a syscall instruction: that by which a thread waits in the
// kernel or one of the vdso.
func (s *State) findSite() error {
	for _, t := range s.threads {
		var code [2]byte
		if int64(t.regs.Orig_rax) >= 0 && s.read(t.regs.Rip-2, code[:]) == nil && code == syscallCode {
			s.site = t.regs.Rip - 2
			return nil
		}
	}
	for _, a := range s.areas {
		if a.Name != "[vdso]" {
			continue
		}
		code := make([]byte, a.Size())
		if err := s.read(a.Start, code); err != nil {
			return err
		}
		if at := bytes.Index(code, syscallCode[:]); at >= 0 {
			s.site = a.Start + uint64(at)
			return nil
		}
	}
	return s.refuse(true, "has no instruction to make system calls with")
}

// careful says whether traps mean something to the process.
func (s *State) careful() bool {
	if _, ok := s.actions[int(unix.SIGTRAP)]; ok {
		return true
	}
	waits := func(list []ptrace.SignalInfo) bool {
		for i := range list {
			if list[i].Number() == int(unix.SIGTRAP) {
				return true
			}
		}
		return false
	}
	if waits(s.queued) {
		return true
	}
	for _, t := range s.threads {
		if waits(t.queued) {
			return true
		}
	}
	return false
}
