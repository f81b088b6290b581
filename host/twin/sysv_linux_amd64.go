package twin

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sysv are the kinds of objects of System V: the call that tells how many there
// are, and which of the numbers that it gives says so.
var sysv = []struct {
	name  string
	count func(to *[64]int32) syscall.Errno
	place int
}{
	{"shared memory of System V (shmget)", func(to *[64]int32) syscall.Errno {
		const info = 14 // SHM_INFO
		_, _, errno := syscall.RawSyscall(unix.SYS_SHMCTL, 0, info, uintptr(unsafe.Pointer(to)))
		return errno
	}, 0},
	{"semaphores of System V (semget)", func(to *[64]int32) syscall.Errno {
		const info = 19 // SEM_INFO
		_, _, errno := syscall.RawSyscall6(unix.SYS_SEMCTL, 0, 0, info, uintptr(unsafe.Pointer(to)), 0, 0)
		return errno
	}, 7},
	{"message queues of System V (msgget)", func(to *[64]int32) syscall.Errno {
		const info = 12 // MSG_INFO
		_, _, errno := syscall.RawSyscall(unix.SYS_MSGCTL, 0, info, uintptr(unsafe.Pointer(to)))
		return errno
	}, 0},
}

// IPC is the way to the ipc namespace of a process and back: the kernel shows the
// reader's. The zero value leads nowhere, as for an ordinary user, who cannot go.
type IPC struct{ there, back *os.File }

// OpenIPC opens the way.
func OpenIPC(pid int) (w IPC, err error) {
	if byPath() {
		return w, nil
	}
	if w.there, err = os.Open(fmt.Sprintf("/proc/%d/ns/ipc", pid)); err == nil {
		w.back, err = os.Open("/proc/thread-self/ns/ipc")
	}
	if err != nil {
		return IPC{}, errors.Join(err, w.Close())
	}
	return w, nil
}

// Enter moves the calling thread there. It looks nowhere else until Leave.
func (w IPC) Enter() error { return w.to(w.there) }

// Leave moves it back.
func (w IPC) Leave() error { return w.to(w.back) }

func (w IPC) to(namespace *os.File) error {
	if namespace == nil {
		return nil
	}
	return os.NewSyscallError("setns", unix.Setns(int(namespace.Fd()), unix.CLONE_NEWIPC))
}

// Leads says whether it does.
func (w IPC) Leads() bool { return w.there != nil }

// Close closes it.
func (w IPC) Close() error {
	var errs []error
	for _, f := range []*os.File{w.there, w.back} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// LookForIPC refuses a process whose cell has objects of System V, which belong
// to no process. The calling thread is in the cell's ipc namespace.
func (p *Paused) LookForIPC() error {
	for _, kind := range sysv {
		var numbers [64]int32
		switch errno := kind.count(&numbers); {
		case errno == unix.ENOSYS: // the kernel does without
		case errno != 0:
			return fmt.Errorf("twin: count %s: %w", kind.name, errno)
		case numbers[kind.place] > 0:
			return refuse(p.Inside, p.Name, fmt.Sprintf("is in a cell that has %s", kind.name), false)
		}
	}
	return nil
}
