package guestmem

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the size that mappings are aligned to, so that the kernel can use pages of
// that size for a guest that boots.
const hugePage = 2 << 20

// Mapping is memory that a file holds.
type Mapping struct {
	*Memory
	reserved, at, size uintptr
}

// Map maps a file from an offset on, which is a multiple of a page. What is written
// changes the file, unless private.
func Map(file *os.File, offset, size int64, private bool) (*Mapping, error) {
	if size <= 0 || offset < 0 {
		return nil, fmt.Errorf("guestmem: %d bytes at %d", size, offset)
	}
	reserved, err := mmap(0, uintptr(size)+hugePage, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE, ^uintptr(0), 0)
	if err != nil {
		return nil, err
	}
	m := &Mapping{reserved: reserved, at: (reserved + hugePage - 1) &^ (hugePage - 1), size: uintptr(size)}
	if err := m.Replace(file, offset, private); err != nil {
		return nil, err // and the reservation goes with the process
	}
	m.Memory = New(unsafe.Slice((*byte)(pointer(m.at)), size))
	return m, nil
}

// Replace puts a file in the place of what is mapped.
func (m *Mapping) Replace(file *os.File, offset int64, private bool) error {
	how := uintptr(unix.MAP_SHARED)
	if private {
		how = unix.MAP_PRIVATE
	}
	if _, err := mmap(m.at, m.size, unix.PROT_READ|unix.PROT_WRITE, how|unix.MAP_FIXED|unix.MAP_NORESERVE, file.Fd(), offset); err != nil {
		return err
	}
	if !private {
		// Only advice: kernels that were built without huge pages refuse it.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.at, m.size, unix.MADV_HUGEPAGE)
	}
	return nil
}

// Close unmaps the memory, which nobody uses any more.
func (m *Mapping) Close() error {
	_, _, errno := unix.Syscall(unix.SYS_MUNMAP, m.reserved, m.size+hugePage, 0)
	if errno != 0 {
		return os.NewSyscallError("munmap", errno)
	}
	return nil
}

func mmap(at, size, prot, flags, fd uintptr, offset int64) (uintptr, error) {
	got, _, errno := unix.Syscall6(unix.SYS_MMAP, at, size, prot, flags, fd, uintptr(offset))
	if errno != 0 {
		return 0, os.NewSyscallError("mmap", errno)
	}
	return got, nil
}

// pointer is an address that the kernel gave, and the garbage collector does not know.
func pointer(at uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&at)) }
