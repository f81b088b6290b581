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
	}{count: int32(most)}
	if process {
		args.flags = unix.PTRACE_PEEKSIGINFO_SHARED
	}
	list := make([]SignalInfo, most)
	n, _, errno := syscall.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_PEEKSIGINFO, uintptr(t.TID), uintptr(unsafe.Pointer(&args)), uintptr(unsafe.Pointer(&list[0])), 0, 0)
	if errno != 0 {
		return nil, errno
	}
	return list[:n], nil
}
