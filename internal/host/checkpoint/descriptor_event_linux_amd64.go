package checkpoint

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// readEvent finds out whether an eventfd is a semaphore. Kernels before 6.5 do not
// tell, so it is tried there, which nobody can see: everything that could look is
// stopped, and the count is put back.
func (p *Tracee) readEvent(d *Descriptor) error {
	if d.semaphoreTold {
		return nil
	}
	fd, err := p.borrow(d.Number)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	d.Semaphore, err = trySemaphore(fd, d.Count)
	return err
}

// trySemaphore reads from an eventfd that holds a count: a semaphore gives one of
// it, any other gives all. They differ from two on. What was read or added is put
// back, so that poll and epoll say what they said; only an edge-triggered watch is
// told once more of what was ready.
func trySemaphore(fd int, count uint64) (semaphore bool, err error) {
	const least = 2
	added := uint64(0)
	if count < least {
		added = least - count
		if err := addEvent(fd, added); err != nil {
			return false, err
		}
	}
	got, err := takeEvent(fd)
	if err != nil {
		return false, err
	}
	if semaphore = got == 1; !semaphore && got != count+added {
		return false, fmt.Errorf("checkpoint: an eventfd gave %d of %d", got, count+added)
	}
	// What is left in it now, and what was: a semaphore counts down by ones.
	left := count + added - got
	for ; left > count; left-- {
		if _, err := takeEvent(fd); err != nil {
			return semaphore, err
		}
	}
	return semaphore, addEvent(fd, count-left)
}

// takeEvent reads from an eventfd whose count is not zero, which never waits.
func takeEvent(fd int) (uint64, error) {
	var value [8]byte
	n, err := unix.Read(fd, value[:])
	if err == nil && n != len(value) {
		err = io.ErrUnexpectedEOF
	}
	return binary.NativeEndian.Uint64(value[:]), os.NewSyscallError("read", err)
}

// addEvent adds to an eventfd. Adding nothing would still wake who waits.
func addEvent(fd int, count uint64) error {
	if count == 0 {
		return nil
	}
	_, err := unix.Write(fd, binary.NativeEndian.AppendUint64(nil, count))
	return os.NewSyscallError("write", err)
}

func (d Descriptor) recreateEvent() (int, error) {
	flags := d.Flags&unix.O_NONBLOCK | unix.EFD_CLOEXEC
	if d.Semaphore {
		flags |= unix.EFD_SEMAPHORE
	}
	fd, err := unix.Eventfd(0, flags)
	if err == nil {
		err = addEvent(fd, d.Count)
	}
	return fd, err
}
