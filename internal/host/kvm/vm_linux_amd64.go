package kvm

import (
	"encoding/binary"
	"errors"
	"os"
	"unsafe"

	"aether/internal/host/guestmem"

	"golang.org/x/sys/unix"
)

// VM is one machine. Only the process that made it can use it.
type VM struct {
	system *System
	fd     int
}

// tssAddress is where processors of Intel keep three pages that no guest looks at.
const tssAddress = 0xfffbd000

// NewVM makes a machine with interrupt controllers and a timer, and nothing else.
func (s *System) NewVM() (*VM, error) {
	fd, err := ioctl(s.fd(), createVM, 0)
	if err != nil {
		return nil, err
	}
	v := &VM{s, fd}
	if _, err := ioctl(fd, setTSSAddress, tssAddress); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	if _, err := ioctl(fd, createIRQChip, 0); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	pit := [16]uint32{1} // the port of a speaker that is not there
	if _, err := ioctlAt(fd, createPIT, unsafe.Pointer(&pit)); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	return v, nil
}

// Close gives the machine up. Its processors are closed before.
func (v *VM) Close() error { return os.NewSyscallError("close", unix.Close(v.fd)) }

// SetMemory gives the machine its memory, also anew. If it is watched, the kernel notes which
// pages are written.
func (v *VM) SetMemory(m *guestmem.Memory, watched bool) error {
	flags := uint32(0)
	if watched {
		flags = logWritten
	}
	for slot, r := range m.Ranges() {
		region := struct {
			slot, flags       uint32
			start, size, host uint64
		}{uint32(slot), flags, r.Start, uint64(len(r.Bytes)), uint64(uintptr(unsafe.Pointer(&r.Bytes[0])))}
		if _, err := ioctlAt(v.fd, setMemory, unsafe.Pointer(&region)); err != nil {
			return err
		}
	}
	return nil
}

// logWritten is the flag of memory of which the kernel notes what is written.
const logWritten = 1

// Written adds the pages of memory that is watched which the machine or the kernel has written
// since the last call. What this process has written itself is not among them.
func (v *VM) Written(m *guestmem.Memory, to guestmem.Pages) error {
	for slot, r := range m.Ranges() {
		pages := guestmem.NewPages(int64(len(r.Bytes)))
		log := struct {
			slot, _ uint32
			pages   unsafe.Pointer
		}{slot: uint32(slot), pages: unsafe.Pointer(&pages[0])}
		if _, err := ioctlAt(v.fd, getWritten, unsafe.Pointer(&log)); err != nil {
			return err
		}
		to.Add(pages)
		to = to[len(pages):]
	}
	return nil
}

// SetLine raises or lowers an interrupt line.
func (v *VM) SetLine(line uint32, up bool) error {
	level := [2]uint32{line}
	if up {
		level[1] = 1
	}
	_, err := ioctlAt(v.fd, irqLine, unsafe.Pointer(&level))
	return err
}

// Event is something that is told across the machine's border.
type Event struct {
	file *os.File
	// fd is its number: a file that is asked for it may become one that blocks, and who
	// waits is woken by the runtime.
	fd int
}

func newEvent() (*Event, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd2", err)
	}
	return &Event{os.NewFile(uintptr(fd), "event"), fd}, nil
}

// Raise tells it.
func (e *Event) Raise() error {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, err := e.file.Write(one[:])
	return err
}

// Wait waits until it was told, once or often. Errors: os.ErrClosed.
func (e *Event) Wait() error {
	var count [8]byte
	_, err := e.file.Read(count[:])
	return err
}

// Close ends the waiting.
func (e *Event) Close() error { return e.file.Close() }

// Interrupt is an event that interrupts the guest by a line.
func (v *VM) Interrupt(line uint32) (*Event, error) {
	e, err := newEvent()
	if err != nil {
		return nil, err
	}
	how := [8]uint32{uint32(e.fd), line}
	if err := e.attach(v.fd, irqEvent, unsafe.Pointer(&how)); err != nil {
		return nil, err
	}
	return e, nil
}

// Notification is an event that a guest tells by writing four bytes to an address.
func (v *VM) Notification(address uint64, value uint32) (*Event, error) {
	const datamatch = 1
	e, err := newEvent()
	if err != nil {
		return nil, err
	}
	how := struct {
		value, address uint64
		length         uint32
		fd             int32
		flags          uint32
		_              [36]byte
	}{uint64(value), address, 4, int32(e.fd), datamatch, [36]byte{}}
	if err := e.attach(v.fd, ioEvent, unsafe.Pointer(&how)); err != nil {
		return nil, err
	}
	return e, nil
}

// attach has the kernel know the event.
func (e *Event) attach(fd int, request uintptr, how unsafe.Pointer) error {
	_, err := ioctlAt(fd, request, how)
	if err == nil {
		return nil
	}
	return errors.Join(err, e.Close())
}
