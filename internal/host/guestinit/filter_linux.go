package guestinit

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// instruction is the size of one of a filter's.
const instruction = int(unsafe.Sizeof(unix.SockFilter{}))

// Filter puts a system call filter, as the kernel reads it, on every thread of this
// process, for good. It also takes from it the ways to gain rights by executing
// programs, without which the kernel lets only root have a filter.
func Filter(program []byte) error {
	count := len(program) / instruction
	if count == 0 || count > unix.BPF_MAXINSNS || len(program)%instruction != 0 {
		return fmt.Errorf("%d bytes are no filter of system calls", len(program))
	}
	code := make([]unix.SockFilter, count)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&code[0])), len(program)), program)
	runtime.LockOSThread() // both calls are about one thread, which the others then follow
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl(PR_SET_NO_NEW_PRIVS)", err)
	}
	filter := unix.SockFprog{Len: uint16(count), Filter: &code[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter)))
	switch {
	case errno != 0:
		return os.NewSyscallError("seccomp", errno)
	case thread != 0:
		return fmt.Errorf("seccomp: thread %d does not follow", thread)
	}
	return nil
}
