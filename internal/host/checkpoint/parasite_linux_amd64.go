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

// parasiteCall is a system call that a thread of the process is made to make, because
// the kernel tells its result to nobody else.
type parasiteCall struct {
	thread *thread
	nr     uintptr
	args   []uint64
	// buffer receives what the call writes to the address that is its argument at
	// bufferArg; nil if it writes nothing.
	buffer    []byte
	bufferArg int
	result    *int64 // or nil: then it must be 0
	// unsupported is the error of kernels that do not have the call, which leaves result
	// as it is; 0 if all have it.
	unsupported syscall.Errno
}

// scratch is memory of the process that is borrowed for the parasite's calls: their
// arguments and what they write. It is put back before anything is copied.
type scratch struct {
	at    uint64
	saved [pageSize]byte
	code  uint64 // where the parasite is, which makes many calls in a row, or 0
}

// runParasite has the threads make the calls of which only they get to know the
// results. Their registers are changed by it until Resume. meanwhile runs at the same
// time.
func (s *State) runParasite(meanwhile func() error) error {
	if err := s.findSyscall(); err != nil {
		return err
	}
	for _, t := range s.threads {
		if err := errors.Join(s.suspendRSeq(t), t.SetSignalMask(allSignals)); err != nil {
			return err
		}
	}
	r, err := s.openScratch()
	if err != nil {
		return err
	}
	return errors.Join(s.collect(r, meanwhile), s.closeScratch(r), s.resumeRSeq())
}

// openScratch borrows the first page that the process can write and nobody else uses,
// and puts the parasite into the first page that it executes, as debuggers put their
// breakpoints there: the page becomes one of the process's own.
func (s *State) openScratch() (*scratch, error) {
	free := func(a VMA) bool { return a.Write && !a.Shared && a.Name != "[stack]" && !s.usedByRSeq(a.Start) }
	i := slices.IndexFunc(s.vmas, free)
	if i < 0 {
		return nil, s.refuse(false, "has no memory of its own")
	}
	r := &scratch{at: s.vmas[i].Start}
	if err := s.read(r.at, r.saved[:]); err != nil {
		return nil, err
	}
	s.readParasitePage()
	if s.parasiteAt != 0 && s.threads[0].Poke(s.parasiteAt, ptrace.Calls) == nil {
		r.code = s.parasiteAt
	}
	return r, nil
}

// readParasitePage reads the page that a program can be put to, if there is one.
func (s *State) readParasitePage() {
	for _, a := range s.vmas {
		if a.Exec && a.Read && !a.Shared && a.file() && !kernelVMA(a) {
			page := make([]byte, pageSize)
			if s.read(a.Start, page) == nil {
				s.parasiteAt, s.parasitePage = a.Start, page
			}
			return
		}
	}
}

// closeScratch puts everything back as it was.
func (s *State) closeScratch(r *scratch) error {
	err := s.write(r.at, r.saved[:])
	if r.code != 0 {
		err = errors.Join(err, s.threads[0].Poke(r.code, s.parasitePage[:len(ptrace.Calls)]))
	}
	return err
}

// sameParasitePage says whether the page of the parasite is as it was in an earlier
// state, though the kernel has noted writes to it since.
func (s *State) sameParasitePage(was *State) bool {
	return was != nil && s.parasiteAt != 0 && s.parasiteAt == was.parasiteAt && bytes.Equal(s.parasitePage, was.parasitePage)
}

// collect runs the parasite, and reads the signals that wait. A timer that ends between
// the two would be lost, or be there twice: then timers are read again. They go on
// only when their signals are delivered.
func (s *State) collect(r *scratch, meanwhile func() error) error {
	if err := s.readPending(); err != nil {
		return err
	}
	list, done := s.parasiteCalls()
	list = append(list, s.timerCalls()...)
	const tries = 4
	for range tries {
		before := s.countQueued()
		if err := s.run(r, list, meanwhile); err != nil {
			return err
		}
		if err := s.readPending(); err != nil {
			return err
		}
		if s.countQueued() == before {
			return done()
		}
		list, meanwhile = s.timerCalls(), noop
	}
	return s.refuse(true, "is sent signals too fast")
}

// parasiteCalls are those that are made once, the first thread's last. done takes in
// what they gave.
func (s *State) parasiteCalls() (list []parasiteCall, done func() error) {
	for _, t := range slices.Backward(s.threads) {
		list = append(list,
			parasiteCall{thread: t, nr: unix.SYS_SIGALTSTACK, args: []uint64{0, 0}, buffer: t.AltStack[:], bufferArg: 1},
			parasiteCall{thread: t, nr: unix.SYS_PRCTL, args: []uint64{unix.PR_GET_TID_ADDRESS, 0}, buffer: bytesOf(&t.ClearTID), bufferArg: 1})
	}
	leader := s.threads[0]
	var (
		brk, dumpable int64
		subreaper     int32
		barriers      int64 = allMembarriers
	)
	list = append(list,
		parasiteCall{thread: leader, nr: unix.SYS_BRK, args: []uint64{0}, result: &brk},
		parasiteCall{thread: leader, nr: unix.SYS_PRCTL, args: []uint64{unix.PR_GET_DUMPABLE}, result: &dumpable},
		parasiteCall{thread: leader, nr: unix.SYS_PRCTL, args: []uint64{unix.PR_GET_CHILD_SUBREAPER, 0}, buffer: bytesOf(&subreaper), bufferArg: 1},
		parasiteCall{thread: leader, nr: unix.SYS_MEMBARRIER, args: []uint64{membarrierGetRegistrations, 0, 0}, result: &barriers, unsupported: unix.EINVAL})
	var actions [65][32]byte
	for signal := range actions {
		if s.handles(signal) {
			list = append(list, parasiteCall{thread: leader, nr: unix.SYS_RT_SIGACTION, args: []uint64{uint64(signal), 0, 0, 8}, buffer: actions[signal][:], bufferArg: 2})
		}
	}
	objects, refuse := s.sysvCalls()
	return append(list, objects...), func() error {
		s.Brk, s.Subreaper, s.Undumpable, s.Membarriers = uint64(brk), subreaper != 0, dumpable == 0, barriers&allMembarriers
		s.Actions = map[int][32]byte{}
		for signal := range actions {
			if s.handles(signal) {
				s.Actions[signal] = actions[signal]
			}
		}
		return refuse()
	}
}

// handles says whether the process has a signal handled or ignored.
func (p *Tracee) handles(signal int) bool { return signal > 0 && p.handled>>(signal-1)&1 != 0 }

func bytesOf[T any](value *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(value)), unsafe.Sizeof(*value))
}

func noop() error { return nil }

// run has the process answer questions, of which those for one thread follow
// each other.
func (s *State) run(r *scratch, list []parasiteCall, meanwhile func() error) error {
	if r.code == 0 {
		for _, q := range list {
			if err := s.runOne(r, q); err != nil {
				return err
			}
		}
		return meanwhile()
	}
	for len(list) > 0 {
		n, size := 0, 0
		for n < len(list) && size+ptrace.CallSize+roundUp(len(list[n].buffer)) <= pageSize {
			size += ptrace.CallSize + roundUp(len(list[n].buffer))
			n++
		}
		if err := s.runBatch(r, list[:n], meanwhile); err != nil {
			return err
		}
		list, meanwhile = list[n:], noop
	}
	return nil
}

func roundUp(size int) int { return (size + 7) &^ 7 }

func (s *State) runOne(r *scratch, q parasiteCall) error {
	if q.buffer != nil {
		q.args[q.bufferArg] = r.at
	}
	result, err := q.thread.Call(&q.thread.Regs, s.syscallAt, q.nr, q.args...)
	if err == nil {
		err = q.accept(result)
	}
	if err == nil && q.buffer != nil {
		err = s.read(r.at, q.buffer)
	}
	return err
}

// accept takes the result.
func (q parasiteCall) accept(result int64) error {
	if q.unsupported != 0 && result == -int64(q.unsupported) {
		return nil
	}
	if result < 0 && result > -4096 || q.result == nil && result != 0 {
		return fmt.Errorf("checkpoint: thread %d, call %d: %w", q.thread.TID, q.nr, syscall.Errno(-result))
	}
	if q.result != nil {
		*q.result = result
	}
	return nil
}

// runBatch has threads make all the calls, with one stop each.
func (s *State) runBatch(r *scratch, list []parasiteCall, meanwhile func() error) error {
	memory := make([]byte, pageSize)
	at := ptrace.CallSize * len(list)
	for i, q := range list {
		if q.buffer != nil {
			q.args[q.bufferArg] = r.at + uint64(at)
			at += roundUp(len(q.buffer))
		}
		ptrace.PutCall(memory[ptrace.CallSize*i:], q.nr, q.args...)
	}
	memory = memory[:at]
	if err := s.write(r.at, memory); err != nil {
		return err
	}
	if err := s.startCalls(r, list, meanwhile); err != nil {
		return err
	}
	if err := s.read(r.at, memory); err != nil {
		return err
	}
	answers := memory[ptrace.CallSize*len(list):]
	for i, q := range list {
		if err := q.accept(ptrace.CallResult(memory[ptrace.CallSize*i:])); err != nil {
			return err
		}
		copy(q.buffer, answers)
		answers = answers[roundUp(len(q.buffer)):]
	}
	return nil
}

// startCalls has every thread make its own, all at the same time.
func (s *State) startCalls(r *scratch, list []parasiteCall, meanwhile func() error) error {
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
		if err := t.Begin(&t.Regs, r.code, first, n); err != nil {
			errs = append(errs, err)
			break
		}
		first, list = first+uint64(n)*ptrace.CallSize, list[n:]
		begun = append(begun, beginning{t, first - ptrace.CallSize + ptrace.ResultAt})
	}
	errs = append(errs, meanwhile())
	for _, b := range begun {
		errs = append(errs, b.thread.Finish(func() (bool, error) {
			var result int64
			err := s.read(b.last, bytesOf(&result))
			return result != ptrace.NoResult, err
		}))
	}
	return errors.Join(errs...)
}

// rseqCSOffset is where in its registration a thread says that it is in a
// restartable sequence.
const rseqCSOffset = 8

// suspendRSeq keeps in which one a thread is, and has the kernel not know. It
// would forget by itself as soon as the thread is elsewhere, so that the thread went
// on in the middle of it; and first read of memory that may have been lent. If that
// is not there the kernel will end the process.
func (p *Tracee) suspendRSeq(t *thread) error {
	if t.Rseq.Pointer == 0 || p.read(t.Rseq.Pointer+rseqCSOffset, bytesOf(&t.rseqCS)) != nil || t.rseqCS == 0 {
		return nil
	}
	return p.write(t.Rseq.Pointer+rseqCSOffset, make([]byte, 8))
}

// resumeRSeq tells the kernel again.
func (p *Tracee) resumeRSeq() error {
	var errs []error
	for _, t := range p.threads {
		if t.rseqCS != 0 {
			errs = append(errs, p.write(t.Rseq.Pointer+rseqCSOffset, bytesOf(&t.rseqCS)))
		}
	}
	return errors.Join(errs...)
}

// usedByRSeq says whether the kernel writes to a page of the process's whenever a
// thread of it runs.
func (p *Tracee) usedByRSeq(page uint64) bool {
	return slices.ContainsFunc(p.threads, func(t *thread) bool {
		return t.Rseq.Pointer < page+pageSize && t.Rseq.Pointer+uint64(t.Rseq.Size) > page
	})
}

var syscallCode = [2]byte{0x0f, 0x05}

// findSyscall finds a syscall instruction: that by which a thread waits in the
// kernel or one of the vdso.
func (s *State) findSyscall() error {
	for _, t := range s.threads {
		var code [2]byte
		if int64(t.Regs.Orig_rax) >= 0 && s.read(t.Regs.Rip-2, code[:]) == nil && code == syscallCode {
			s.syscallAt = t.Regs.Rip - 2
			return nil
		}
	}
	for _, a := range s.vmas {
		if a.Name != "[vdso]" {
			continue
		}
		code := make([]byte, a.Size())
		if err := s.read(a.Start, code); err != nil {
			return err
		}
		if at := bytes.Index(code, syscallCode[:]); at >= 0 {
			s.syscallAt = a.Start + uint64(at)
			return nil
		}
	}
	return s.refuse(true, "has no instruction to make system calls with")
}

// usesTraps says whether traps mean something to the process.
func (s *State) usesTraps() bool {
	if _, ok := s.Actions[int(unix.SIGTRAP)]; ok {
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
	if waits(s.Queued) {
		return true
	}
	for _, t := range s.threads {
		if waits(t.Queued) {
			return true
		}
	}
	return false
}
