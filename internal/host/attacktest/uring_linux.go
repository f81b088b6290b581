package attacktest

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Operations and offsets of io_uring, of include/uapi/linux/io_uring.h.
const (
	opConnect = 16
	opSend    = 26
	opRecv    = 27
	opSocket  = 45

	offsetSubmissions = 0
	offsetEntries     = 0x10000000
	paramsSize        = 120
	entrySize         = 64
	completionSize    = 16
)

// ring is an io_uring of which one entry is used at a time.
type ring struct {
	fd           int
	rings, slots []byte
	params       [paramsSize]byte
}

// word is a number of the parameters: features, and offsets of the rings.
func (r *ring) word(at int) uint32 { return binary.NativeEndian.Uint32(r.params[at:]) }

// Places of the offsets in the parameters.
const (
	submitTail                                            = 40 + 4
	submitMask                                            = 40 + 8
	submitArray                                           = 40 + 24
	completeHead, completeTail, completeMask, completions = 80, 80 + 4, 80 + 8, 80 + 20
)

func newRing() (*ring, error) {
	r := &ring{}
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&r.params[0])), 0)
	if errno != 0 {
		return nil, os.NewSyscallError("io_uring_setup", errno)
	}
	r.fd = int(fd)
	size := max(int(r.word(submitArray))+4*int(r.word(0)), int(r.word(completions))+completionSize*int(r.word(4)))
	var err error
	if r.rings, err = unix.Mmap(r.fd, offsetSubmissions, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return nil, errors.Join(os.NewSyscallError("mmap", err), unix.Close(r.fd))
	}
	if r.slots, err = unix.Mmap(r.fd, offsetEntries, entrySize*int(r.word(0)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return nil, errors.Join(os.NewSyscallError("mmap", err), unix.Munmap(r.rings), unix.Close(r.fd))
	}
	return r, nil
}

func (r *ring) close() error {
	return errors.Join(unix.Munmap(r.slots), unix.Munmap(r.rings), unix.Close(r.fd))
}

func (r *ring) at(place int) *uint32 { return (*uint32)(unsafe.Pointer(&r.rings[r.word(place)])) }

// do submits one entry and waits for its end.
func (r *ring) do(op byte, fd int32, off uint64, data unsafe.Pointer, size uint32) (int32, error) {
	tail := atomic.LoadUint32(r.at(submitTail))
	index := tail & *r.at(submitMask)
	slot := r.slots[entrySize*index : entrySize*(index+1)]
	clear(slot)
	slot[0] = op
	binary.NativeEndian.PutUint32(slot[4:], uint32(fd))
	binary.NativeEndian.PutUint64(slot[8:], off)
	binary.NativeEndian.PutUint64(slot[16:], uint64(uintptr(data)))
	binary.NativeEndian.PutUint32(slot[24:], size)
	binary.NativeEndian.PutUint32(r.rings[r.word(submitArray)+4*index:], index)
	atomic.StoreUint32(r.at(submitTail), tail+1)
	if _, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), 1, 1, 1, 0, 0); errno != 0 { // 1: IORING_ENTER_GETEVENTS
		return 0, os.NewSyscallError("io_uring_enter", errno)
	}
	head := atomic.LoadUint32(r.at(completeHead))
	done := r.rings[r.word(completions)+completionSize*(head&*r.at(completeMask)):]
	result := int32(binary.NativeEndian.Uint32(done[8:]))
	atomic.StoreUint32(r.at(completeHead), head+1)
	if result < 0 {
		return 0, unix.Errno(-result)
	}
	return result, nil
}

// Uring connects to an address of version 4, says something and gives what it hears, all of
// it by io_uring: no system call of a socket is made.
func Uring(to netip.AddrPort, say string) (heard string, err error) {
	r, err := newRing()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	fd, err := r.do(opSocket, unix.AF_INET, unix.SOCK_STREAM, nil, 0)
	if err != nil {
		return "", os.NewSyscallError("IORING_OP_SOCKET", err)
	}
	defer unix.Close(int(fd))
	name := unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: to.Addr().As4(), Port: to.Port()<<8 | to.Port()>>8}
	if _, err := r.do(opConnect, fd, unix.SizeofSockaddrInet4, unsafe.Pointer(&name), 0); err != nil {
		return "", os.NewSyscallError("IORING_OP_CONNECT", err)
	}
	text, answer := []byte(say), make([]byte, 4096)
	if _, err := r.do(opSend, fd, 0, unsafe.Pointer(&text[0]), uint32(len(text))); err != nil {
		return "", os.NewSyscallError("IORING_OP_SEND", err)
	}
	n, err := r.do(opRecv, fd, 0, unsafe.Pointer(&answer[0]), uint32(len(answer)))
	if err != nil {
		return "", os.NewSyscallError("IORING_OP_RECV", err)
	}
	return string(answer[:n]), nil
}
