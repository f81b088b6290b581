package confine

import (
	"errors"
	"os"

	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// StartStub starts the stub program, which only sleeps, outside of all cells, with
// two files as its standard input and output. It is to be traced and made into
// something else. It ends with the thread.
func (h *Host) StartStub(on *spawn.Thread, stdin, stdout *os.File) (*spawn.Process, error) {
	release, err := h.use("start a stub")
	if err != nil {
		return nil, err
	}
	defer release()
	stub, err := spawn.Stub()
	if err != nil {
		return nil, err
	}
	s, err := h.script(0)
	if err != nil {
		return nil, err
	}
	s.initFiles(h)
	s.Call(unix.SYS_DUP3, stdin.Fd(), 0, 0)
	s.Call(unix.SYS_DUP3, stdout.Fd(), 1, 0)
	s.Call(unix.SYS_DUP3, stub.Fd(), initFd, unix.O_CLOEXEC)
	s.executeInit(rootFd)
	var started spawn.Started
	// Not on a spawning thread, which stands on a stage: the process opens files by
	// the host's /proc.
	err = on.Do(func() (err error) {
		started, err = s.Start(0, -1)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, s.Free())
	}
	p, err := started.Await()
	return p, errors.Join(err, started.Done())
}
