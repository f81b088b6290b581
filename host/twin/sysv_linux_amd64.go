package twin

import (
	"bytes"
	"fmt"
	"os"

	"aether/host/spawn"

	"golang.org/x/sys/unix"
)

// sysv are the kinds of objects of System V, as /proc/sysvipc calls them.
var sysv = []struct{ file, name string }{
	{"shm", "shared memory of System V (shmget)"},
	{"sem", "semaphores of System V (semget)"},
	{"msg", "message queues of System V (msgget)"},
}

// LookForIPC begins to look whether the process's cell has objects of System V,
// which belong to no process. Check waits for the answer.
func (k *Kept) LookForIPC(p *Paused) {
	k.ipc = make(chan error, 1)
	go func() {
		// On a thread of its own, which ends: it is in the wrong namespace then.
		thread, err := spawn.NewThread(p.lookForIPC)
		if err == nil {
			thread.Close()
		}
		k.ipc <- err
	}()
}

// lookForIPC goes to the process's ipc namespace: the kernel shows the reader's.
func (p *Paused) lookForIPC() error {
	pidfd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(pidfd)
	err = unix.Setns(pidfd, unix.CLONE_NEWIPC)
	if err == unix.EPERM && byPath() {
		return nil // an ordinary user cannot look
	}
	if err != nil {
		return os.NewSyscallError("setns", err)
	}
	for _, kind := range sysv {
		text, err := os.ReadFile("/proc/sysvipc/" + kind.file)
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
