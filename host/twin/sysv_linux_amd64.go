package twin

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// sysv are the kinds of objects of System V, as /proc/sysvipc calls them.
var sysv = []struct{ file, name string }{
	{"shm", "shared memory of System V (shmget)"},
	{"sem", "semaphores of System V (semget)"},
	{"msg", "message queues of System V (msgget)"},
}

// StandInIPC moves the calling thread to the ipc namespace of a process, for
// LookForIPC: the kernel shows the reader's. It says whether it could; an ordinary
// user cannot. The thread must be one that nothing else depends on.
func StandInIPC(pid int) (stands bool, err error) {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false, os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(pidfd)
	err = unix.Setns(pidfd, unix.CLONE_NEWIPC)
	if err == unix.EPERM && byPath() {
		return false, nil
	}
	return err == nil, os.NewSyscallError("setns", err)
}

// LookForIPC refuses a process whose cell has objects of System V, which belong
// to no process. The calling thread stands in the cell's ipc namespace.
func (p *Paused) LookForIPC() error {
	for _, kind := range sysv {
		text, err := readProc("/proc/sysvipc/" + kind.file)
		if os.IsNotExist(err) {
			continue // the kernel does without
		}
		if err != nil {
			return err
		}
		if bytes.Count(text, []byte("\n")) > 1 { // more than the heading
			return refuse(p.Inside, p.Name, fmt.Sprintf("is in a cell that has %s", kind.name), false)
		}
	}
	return nil
}
