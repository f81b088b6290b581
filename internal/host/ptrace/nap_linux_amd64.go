package ptrace

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// firstNap is about how long a thread that can stop at once takes for it, and maxNap how
	// late it may be seen that one has which waits for a processor.
	firstNap = 5 * time.Microsecond
	maxNap   = 50 * time.Microsecond
	// napTime is how long a stop is awaited by naps alone.
	napTime = 5 * time.Millisecond
	// exact has the kernel end naps when they are over; else it may wait for 50 microseconds
	// more, to end others at the same time.
	exact = 1
)

// naps are what the calling thread sleeps while another is about to stop. It sleeps, for
// who yields gives up the rest of its turn: beside somebody who never rests on the same
// processor, it would wait for whole turns of that one, again and again. And it sleeps in
// place of waiting for the stop, because a wait for another process has no end of its own.
type naps struct {
	begun time.Time
	next  time.Duration
	slack uintptr // what the thread had
}

// nap sleeps for a moment, first a short one.
func (n *naps) nap() {
	if n.begun.IsZero() {
		n.begun, n.next = time.Now(), firstNap
		n.slack, _, _ = syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_GET_TIMERSLACK, 0, 0)
		syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, exact, 0)
	}
	if n.long() {
		time.Sleep(n.next)
		return
	}
	// Go would give what else this thread could do to others, and wait to get it back.
	ts := unix.NsecToTimespec(n.next.Nanoseconds())
	syscall.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
	n.next = min(n.next+n.next/4, maxNap)
}

// long says that it takes longer than it should.
func (n *naps) long() bool { return !n.begun.IsZero() && time.Since(n.begun) > napTime }

// end gives the thread back what nap has changed.
func (n *naps) end() {
	if !n.begun.IsZero() {
		syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, n.slack, 0)
	}
}
