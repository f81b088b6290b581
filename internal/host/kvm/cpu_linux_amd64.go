package kvm

import (
	"encoding/binary"
	"errors"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// CPU is one processor of a machine. One thread runs it.
type CPU struct {
	vm     *VM
	fd     int
	area   []byte // what the kernel and this program tell each other
	thread atomic.Int64
}

// NewCPU makes the processor of a number.
func (v *VM) NewCPU(id int) (*CPU, error) {
	fd, err := ioctl(v.fd, createCPU, uintptr(id))
	if err != nil {
		return nil, err
	}
	c := &CPU{vm: v, fd: fd}
	if c.area, err = unix.Mmap(fd, 0, v.system.runSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, errors.Join(os.NewSyscallError("mmap", err), unix.Close(fd))
	}
	if _, err := ioctlAt(fd, setCPUID, unsafe.Pointer(v.system.cpuidOf(id))); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close gives the processor up.
func (c *CPU) Close() error {
	return errors.Join(os.NewSyscallError("munmap", unix.Munmap(c.area)), os.NewSyscallError("close", unix.Close(c.fd)))
}

// Bind says that this thread runs the processor from now on.
func (c *CPU) Bind() { c.thread.Store(int64(unix.Gettid())) }

// ErrInterrupted is that a processor left the guest because it was kicked or a signal
// came. Whatever it was doing outside is complete then: its state can be saved.
var ErrInterrupted = errors.New("kvm: interrupted")

// Run runs the guest until there is something to do outside. Errors: ErrInterrupted.
func (c *CPU) Run() error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(c.fd), run, 0)
	switch errno {
	case 0:
		return nil
	case unix.EINTR, unix.EAGAIN: // the latter, of a processor that another one has started
		return ErrInterrupted
	}
	return &Error{run, errno}
}

// immediateExit is a byte of the area's first word, by which the next Run ends at once.
const immediateExit = 1 << 8

func (c *CPU) word() *uint32 { return (*uint32)(unsafe.Pointer(&c.area[0])) }

// Kick has the processor leave the guest, now or when it is about to enter. It lasts
// until Unkick.
func (c *CPU) Kick() error {
	atomic.StoreUint32(c.word(), immediateExit)
	thread := c.thread.Load()
	if thread == 0 {
		return nil // it will see the word first
	}
	// The runtime has a handler for this signal, by which it does nothing much.
	return os.NewSyscallError("tgkill", unix.Tgkill(unix.Getpid(), int(thread), unix.SIGURG))
}

// Unkick lets the processor enter the guest again.
func (c *CPU) Unkick() { atomic.StoreUint32(c.word(), 0) }

// Reason is why a processor left the guest.
type Reason uint32

// Those that are dealt with.
const (
	IO            Reason = 2
	MMIO          Reason = 6
	Shutdown      Reason = 8
	InternalError Reason = 17
	SystemEvent   Reason = 24
)

// Exit is what is to be done outside. Data is read from if Write, else to be filled.
type Exit struct {
	Reason Reason
	Write  bool
	// Address is of memory, or a port.
	Address uint64
	// Data are the bytes of all accesses, each of Size.
	Data []byte
	Size int
}

// Exit says why Run ended. It is good until the next Run.
func (c *CPU) Exit() Exit {
	e := Exit{Reason: Reason(binary.LittleEndian.Uint32(c.area[8:]))}
	detail := c.area[32:]
	switch e.Reason {
	case IO:
		e.Write, e.Size, e.Address = detail[0] == 1, int(detail[1]), uint64(binary.LittleEndian.Uint16(detail[2:]))
		at, length := binary.LittleEndian.Uint64(detail[8:]), uint64(binary.LittleEndian.Uint32(detail[4:]))*uint64(e.Size)
		e.Data = c.area[at : at+length]
	case MMIO:
		e.Address, e.Size, e.Write = binary.LittleEndian.Uint64(detail), int(min(binary.LittleEndian.Uint32(detail[16:]), 8)), detail[20] != 0
		e.Data = detail[8 : 8+e.Size]
	}
	return e
}

// segment and systemRegisters are as the kernel lays them out.
type segment struct {
	base                                     uint64
	limit                                    uint32
	selector                                 uint16
	kind, present, dpl, db, s, l, g, avl, un uint8
	_                                        uint8
}

type systemRegisters struct {
	cs, ds, es, fs, gs, ss, tr, ldt         segment
	gdt, idt                                [2]uint64
	cr0, cr2, cr3, cr4, cr8, efer, apicBase uint64
	interrupts                              [4]uint64
}

// StartFlat has the processor begin at an address, in 32-bit mode without paging, with a
// word in EBX: as the entry of a kernel for PVH wants it.
func (c *CPU) StartFlat(entry, ebx uint64) error {
	var s systemRegisters
	if _, err := ioctlAt(c.fd, getSregs, unsafe.Pointer(&s)); err != nil {
		return err
	}
	flat := segment{limit: 0xffffffff, selector: 0x10, kind: 3, present: 1, db: 1, s: 1, g: 1}
	s.ds, s.es, s.fs, s.gs, s.ss, s.cs = flat, flat, flat, flat, flat, flat
	s.cs.selector, s.cs.kind = 8, 11
	s.tr = segment{limit: 0x67, selector: 0x18, kind: 11, present: 1}
	const protection, extensionType = 1, 1 << 4
	s.cr0, s.cr4, s.efer = protection|extensionType, 0, 0
	if _, err := ioctlAt(c.fd, setSregs, unsafe.Pointer(&s)); err != nil {
		return err
	}
	const rbx, rip, rflags = 1, 16, 17
	var r [18]uint64
	r[rbx], r[rip], r[rflags] = ebx, entry, 2
	_, err := ioctlAt(c.fd, setRegs, unsafe.Pointer(&r))
	return err
}
