package spawn

import (
	"os"

	"golang.org/x/sys/unix"
)

// Of the pipes of os.Pipe both ends are given to Go's poller, which tells it of the end
// that a child is to have as of any other, wakes its thread, and has to be told that it is
// a child's. These have one end for Go and one for a child.

// OutputPipe makes a pipe that a child writes to.
func OutputPipe() (read, child *os.File, err error) {
	fds, err := pipe(0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "output"), os.NewFile(uintptr(fds[1]), "output"), nil
}

// InputPipe makes a pipe that a child reads from.
func InputPipe() (child, write *os.File, err error) {
	fds, err := pipe(1)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "input"), os.NewFile(uintptr(fds[1]), "input"), nil
}

// pipe makes one of which ours is the end for Go. That lives as long as the child, of which
// there may be thousands.
func pipe(ours int) (fds [2]int, err error) {
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return fds, os.NewSyscallError("pipe2", err)
	}
	fds[ours] = AsideOfMany(fds[ours])
	// A new pipe has no other flag that could be set.
	if _, err := unix.FcntlInt(uintptr(fds[ours]), unix.F_SETFL, unix.O_NONBLOCK); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return fds, os.NewSyscallError("fcntl", err)
	}
	return fds, nil
}
