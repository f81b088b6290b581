package ptrace

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SignalInfo is the kernel's siginfo_t.
type SignalInfo [128]byte

// Number is which signal it is.
func (i *SignalInfo) Number() int { return int(*(*int32)(unsafe.Pointer(i))) }

// Pending reads up to most signals that wait to be delivered: to the thread, or
// to whichever of its process.
func (t *Thread) Pending(process bool, most int) ([]SignalInfo, error) {
	args := struct {
		offset uint64
		flags  uint32
		count  int32
	}{}
	if process {
		args.flags = unix.PTRACE_PEEKSIGINFO_SHARED
	}
	list := make([]SignalInfo, most)
	for found := 0; ; {
		args.offset, args.count = uint64(found), int32(most-found)
		n, _, errno := syscall.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_PEEKSIGINFO, uintptr(t.TID), uintptr(unsafe.Pointer(&args)), uintptr(unsafe.Pointer(&list[found])), 0, 0)
		if errno != 0 {
			return nil, errno
		}
		// The kernel gives some of them only where this thread is itself sent a signal
		// meanwhile, as by Go's scheduler when it has been at it for long.
		if found += int(n); n == 0 || found == most {
			return list[:found], nil
		}
	}
}
