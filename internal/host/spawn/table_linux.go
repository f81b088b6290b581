package spawn

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A program that holds ten thousand sandboxes has as many descriptors. A child that
// copies the whole table to close nearly all of it again would cost more with each of
// them, so children share the table and leave it by their first step, with a copy of
// its low end only. What is kept for long is put aside, above that.

// aside is where the descriptors begin that are no concern of new processes.
const aside = 1024

// A table has room for 64 descriptors, and to enlarge one that threads share the kernel
// waits until no processor can look at the old one any more, for milliseconds. A program
// that runs one command need not pay for that: the first few descriptors that are to be
// aside stay where they are, if there is room for the short-lived above them.
const (
	smallTable = 64
	maxNear    = 16
)

var near atomic.Int32 // how many have stayed

const lastDescriptor = 1<<32 - 1

// reserved is how many of the last descriptors below aside are left to those processes
// that are short-lived: what lives long is not to be stranded without them.
const reserved = 64

// Crowded says whether a descriptor is one of those that are left to the short-lived:
// there was no room for it aside.
func Crowded(fd int) bool {
	var l unix.Rlimit
	if fd >= aside || unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return false
	}
	most := int(min(l.Cur, aside))
	return fd >= most-min(reserved, most/2)
}

// Aside moves a descriptor that is kept for long out of the way of new processes. It
// stays where it is if it is one of the first, or the limit on descriptors leaves no room.
func Aside(fd int) int {
	if fd >= aside {
		return fd
	}
	if fd < smallTable-maxNear && near.Load() < maxNear {
		near.Add(1)
		return fd
	}
	moved, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, aside)
	if err != nil {
		return fd
	}
	unix.Close(fd)
	return moved
}

// AsideOfMany is Aside for a descriptor that is kept while a command runs. There it is one of
// many only once the small table is full, and few are not worth the two calls.
func AsideOfMany(fd int) int {
	if fd < smallTable {
		return fd
	}
	return Aside(fd)
}

// leaveTable appends, as the first step, the leaving of our table of descriptors;
// Start fills in from where on nothing is copied.
func (s *Script) leaveTable() {
	step := s.Call(unix.SYS_CLOSE_RANGE, 0, lastDescriptor, unix.CLOSE_RANGE_UNSHARE)
	s.leave = &step
}

// TellParted appends the telling that the child has left our table, which Parted waits
// for. It must be the first that is appended.
func (s *Script) TellParted() {
	at := s.there(unsafe.Pointer(&s.control().phase))
	// The highest priority of SCHED_FIFO is 99 everywhere, which is no other phase.
	s.Call(unix.SYS_SCHED_GET_PRIORITY_MAX, unix.SCHED_FIFO).IntoAddress(at)
	s.Call(unix.SYS_FUTEX, at, futexWakeOp, everyone)
}

// Parted waits until the child has left our table. Descriptors that its script names
// must stay open until then, or until another wait for the child is over.
func (s Started) Parted() {
	word := &s.script.control().phase
	for atomic.LoadUint32(word) == walking {
		futexAwait(word, walking, 0)
	}
}

// shareTable gives the flag for the clone of a child that leaves the table by itself.
func (s *Script) shareTable() uint64 {
	if s.leave == nil {
		return 0
	}
	s.step(s.leave.index).args[0] = s.firstUnused()
	return unix.CLONE_FILES
}

// firstUnused is above every descriptor that the script names.
func (s *Script) firstUnused() uintptr {
	highest := int32(2)
	for i := range s.count {
		st := s.step(i)
		for k, how := range calls[st.nr].args {
			if how == descriptor {
				highest = max(highest, int32(st.args[k]))
			}
		}
	}
	if nested := &s.control().nested; nested.flags&unix.CLONE_INTO_CGROUP != 0 {
		highest = max(highest, int32(nested.cgroup))
	}
	return uintptr(highest) + 1
}
