package checkpoint

import (
	"bytes"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// scheduling is how a thread is given time.
type scheduling struct {
	Nice     int    `json:"nice"`
	Policy   int    `json:"policy"`
	IO       int    `json:"io"`
	Affinity []byte `json:"affinity"` // one bit for each processor
	// Slice is how long its turns are, in nanoseconds; 0 where the kernel does not tell
	// (before Linux 6.12).
	Slice uint64 `json:"slice,omitempty"`
}

const maxProcessors = 8192

const ioProcess = 1 // IOPRIO_WHO_PROCESS, which golang.org/x/sys/unix does not name

func (t *thread) readScheduling() (err error) {
	attr, err := unix.SchedGetAttr(t.TID, 0)
	if err != nil {
		return os.NewSyscallError("sched_getattr", err)
	}
	t.Policy, t.Nice, t.Slice = int(attr.Policy), int(attr.Nice), attr.Runtime
	if attr.Flags&unix.SCHED_FLAG_RESET_ON_FORK != 0 {
		t.Policy |= unix.SCHED_RESET_ON_FORK
	}
	io, _, errno := syscall.RawSyscall(unix.SYS_IOPRIO_GET, ioProcess, uintptr(t.TID), 0)
	if errno != 0 {
		return os.NewSyscallError("ioprio_get", errno)
	}
	t.IO = int(io)
	t.Affinity, err = affinity(t.TID)
	return err
}

// affinity is the set of processors that a thread may run on; 0 is the calling one.
func affinity(tid int) ([]byte, error) {
	var set [maxProcessors / 8]byte
	n, _, errno := syscall.RawSyscall(unix.SYS_SCHED_GETAFFINITY, uintptr(tid), uintptr(len(set)), uintptr(unsafe.Pointer(&set)))
	if errno != 0 {
		return nil, os.NewSyscallError("sched_getaffinity", errno)
	}
	return set[:n], nil
}

func (s *State) readScheduling() error {
	for _, t := range s.threads {
		if err := t.readScheduling(); err != nil {
			return err
		}
		switch t.Policy &^ unix.SCHED_RESET_ON_FORK {
		case unix.SCHED_NORMAL, unix.SCHED_BATCH, unix.SCHED_IDLE:
		default:
			return s.refuse(false, "has a thread of the real-time policy %d", t.Policy)
		}
	}
	return nil
}

// scheduling appends what a thread sets of it. Processors that the new cell does
// not have are left out by the kernel; if none are left, all are.
func (b memorySteps) scheduling(t *thread) {
	// Always, for a zygote's turns are short, and before the policy, for that of idle times lets
	// none be set; 0 is what the kernel has for all. They are set with the niceness, which may
	// not be lowered here: a zygote of a program that is nice has turns as all have.
	b.Call(unix.SYS_SCHED_SETATTR, 0, b.bytes(bytesOf(&unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Flags: unix.SCHED_FLAG_KEEP_POLICY, Nice: int32(t.Nice), Runtime: t.Slice,
	})), 0).MayFail()
	if t.Policy != unix.SCHED_NORMAL {
		b.Call(unix.SYS_SCHED_SETSCHEDULER, 0, uintptr(t.Policy), b.Int64(0))
	}
	if t.Nice != 0 {
		b.Call(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, uintptr(t.Nice))
	}
	if t.IO != 0 {
		b.Call(unix.SYS_IOPRIO_SET, ioProcess, 0, uintptr(t.IO)).MayFail()
	}
	if !bytes.Equal(t.Affinity, everywhere()) {
		b.Call(unix.SYS_SCHED_SETAFFINITY, 0, uintptr(len(t.Affinity)), b.bytes(t.Affinity)).MayFail()
	}
}

// everywhere are the processors that this program may run on, or nil.
var everywhere = sync.OnceValue(func() []byte {
	set, err := affinity(0)
	if err != nil {
		return nil
	}
	return set
})

const (
	membarrierGetRegistrations = 1 << 9 // MEMBARRIER_CMD_GET_REGISTRATIONS, from 6.3 on
	// allMembarriers are the commands that register. A process whose kernel does not
	// tell is taken to have made them all: that refuses nothing and costs little.
	allMembarriers = 1<<2 | 1<<4 | 1<<6 | 1<<8
)

// registerMembarriers appends the registrations that the memory does not have yet.
func (b memorySteps) registerMembarriers(was *State) {
	for command := int64(1); command <= allMembarriers; command <<= 1 {
		if command&b.state.Membarriers&^was.Membarriers != 0 {
			b.Call(unix.SYS_MEMBARRIER, uintptr(command), 0, 0).MayFail()
		}
	}
}

// Dumpable is what the process has told the kernel of whether others like it may
// look into it.
func (s *State) Dumpable() uintptr {
	if s.Undumpable {
		return 0
	}
	return 1
}

// processFlags appends them, but for those that rights depend on.
func (b memorySteps) processFlags() {
	if b.state.Subreaper {
		b.Call(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1)
	}
}
