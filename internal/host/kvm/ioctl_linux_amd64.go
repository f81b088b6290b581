package kvm

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests, as the kernel makes their numbers: a direction, a size, and a number of the
// kind 0xae.
const (
	writes = 1 << 30
	reads  = 2 << 30
	kind   = 0xae << 8

	createVM          = kind | 0x01
	getMSRIndexList   = reads | writes | 4<<16 | kind | 0x02
	checkExtension    = kind | 0x03
	getRunSize        = kind | 0x04
	getSupportedCPUID = reads | writes | 8<<16 | kind | 0x05
	createCPU         = kind | 0x41
	getWritten        = writes | 16<<16 | kind | 0x42
	setMemory         = writes | 32<<16 | kind | 0x46
	setTSSAddress     = kind | 0x47
	createIRQChip     = kind | 0x60
	irqLine           = writes | 8<<16 | kind | 0x61
	getIRQChip        = reads | writes | 520<<16 | kind | 0x62
	setIRQChip        = reads | 520<<16 | kind | 0x63
	irqEvent          = writes | 32<<16 | kind | 0x76
	createPIT         = writes | 64<<16 | kind | 0x77
	ioEvent           = writes | 64<<16 | kind | 0x79
	setClock          = writes | 48<<16 | kind | 0x7b
	getClock          = reads | 48<<16 | kind | 0x7c
	run               = kind | 0x80
	getRegs           = reads | 144<<16 | kind | 0x81
	setRegs           = writes | 144<<16 | kind | 0x82
	getSregs          = reads | 312<<16 | kind | 0x83
	setSregs          = writes | 312<<16 | kind | 0x84
	getMSRs           = reads | writes | 8<<16 | kind | 0x88
	setMSRs           = writes | 8<<16 | kind | 0x89
	getLAPIC          = reads | 1024<<16 | kind | 0x8e
	setLAPIC          = writes | 1024<<16 | kind | 0x8f
	setCPUID          = writes | 8<<16 | kind | 0x90
	getMPState        = reads | 4<<16 | kind | 0x98
	setMPState        = writes | 4<<16 | kind | 0x99
	getPIT            = reads | 112<<16 | kind | 0x9f
	setPIT            = writes | 112<<16 | kind | 0xa0
	getEvents         = reads | 64<<16 | kind | 0x9f
	setEvents         = writes | 64<<16 | kind | 0xa0
	getDebugRegs      = reads | 128<<16 | kind | 0xa1
	setDebugRegs      = writes | 128<<16 | kind | 0xa2
	getXSAVE          = reads | 4096<<16 | kind | 0xa4
	setXSAVE          = writes | 4096<<16 | kind | 0xa5
	getXCRS           = reads | 392<<16 | kind | 0xa6
	setXCRS           = writes | 392<<16 | kind | 0xa7
	clockControl      = kind | 0xad
)

// Requests are all that this package makes, for the list of a monitor's system calls.
func Requests() []uint32 {
	return []uint32{createVM, getMSRIndexList, checkExtension, getRunSize, getSupportedCPUID, createCPU, getWritten, setMemory, setTSSAddress, createIRQChip, irqLine,
		getIRQChip, setIRQChip, irqEvent, createPIT, ioEvent, setClock, getClock, run, getRegs, setRegs, getSregs, setSregs, getMSRs, setMSRs, getLAPIC, setLAPIC,
		setCPUID, getMPState, setMPState, getPIT, setPIT, getEvents, setEvents, getDebugRegs, setDebugRegs, getXSAVE, setXSAVE, getXCRS, setXCRS, clockControl}
}

// Error is a request that the kernel refused.
type Error struct {
	Request uintptr
	Errno   unix.Errno
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("kvm: request %#x: %v", e.Request&0xff, e.Errno)
}

// Unwrap gives the kernel's own word.
func (e *Error) Unwrap() error { return e.Errno }

// ioctl makes a request whose argument is a number.
func ioctl(fd int, request, argument uintptr) (int, error) {
	for {
		result, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, argument)
		switch errno {
		case 0:
			return int(result), nil
		case unix.EINTR:
			continue // the runtime's own signals
		}
		return 0, &Error{request, errno}
	}
}

// ioctlAt makes a request whose argument is in memory.
func ioctlAt(fd int, request uintptr, argument unsafe.Pointer) (int, error) {
	for {
		result, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument))
		switch errno {
		case 0:
			return int(result), nil
		case unix.EINTR:
			continue
		}
		return 0, &Error{request, errno}
	}
}
