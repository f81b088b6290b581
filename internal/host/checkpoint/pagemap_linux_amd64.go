package checkpoint

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What /proc/PID/pagemap says of a page, for kernels that cannot be asked for
// ranges of them.
const (
	entryDirty     = 1 << 55 // written since the bit was cleared (soft-dirty)
	entryExclusive = 1 << 56 // no other process has it
	entryFile      = 1 << 61
	entrySwapped   = 1 << 62
	entryPresent   = 1 << 63
	entrySize      = 8
)

// frame is the number of the frame of memory that a page is in, or 0 if it is in none or
// the kernel does not say.
func frame(pagemap *os.File, address uint64) (uint64, error) {
	var entry [entrySize]byte
	if _, err := pagemap.ReadAt(entry[:], int64(address/pageSize*entrySize)); err != nil {
		return 0, err
	}
	const frames = 1<<55 - 1
	bits := binary.NativeEndian.Uint64(entry[:])
	if bits&entryPresent == 0 {
		return 0, nil
	}
	return bits & frames, nil
}

func addressOf(memory []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&memory[0]))) }

// eachEntry reads what the kernel says of every page of a range.
func eachEntry(pagemap *os.File, within run, give func(page run, bits uint64)) error {
	const chunk = 64 << 10
	buf := make([]byte, min(within.size()/pageSize*entrySize, chunk))
	for at := within.Start; at < within.End; {
		want := min((within.End-at)/pageSize*entrySize, chunk)
		n, err := pagemap.ReadAt(buf[:want], int64(at/pageSize*entrySize))
		if n < entrySize {
			if err == nil || err == io.EOF {
				return nil // beyond what the kernel shows
			}
			return err
		}
		for i := 0; i+entrySize <= n; i, at = i+entrySize, at+pageSize {
			give(run{at, at + pageSize}, binary.NativeEndian.Uint64(buf[i:]))
		}
	}
	return nil
}

// readPages is findPages for kernels before 6.7. If all pages were marked as
// unwritten before, was is not nil.
func readPages(pagemap *os.File, areas []VMA, was *foundPages) (p foundPages, err error) {
	for _, a := range areas {
		if a.Shared {
			continue
		}
		err := eachEntry(pagemap, run{a.Start, a.End}, func(page run, bits uint64) {
			if bits&(entryPresent|entrySwapped) == 0 || bits&entryFile != 0 {
				return
			}
			p.own = extend(p.own, page)
			if was == nil || mayBeWritten(bits) {
				p.written = extend(p.written, page)
			}
		})
		if err != nil {
			return p, err
		}
	}
	return p, nil
}

// mayBeWritten says whether a page may have other contents than when it was marked.
// The page of zeros, which the kernel shows where a page was given back and is read
// again, is never dirty; but it is not exclusive either.
func mayBeWritten(bits uint64) bool {
	return bits&entryDirty != 0 || bits&(entryExclusive|entrySwapped) == 0
}

// readTouched is touched for kernels before 6.7.
func readTouched(pagemap *os.File, pid int) (written, read []run, err error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	areas, err := parseMaps(f)
	for _, a := range areas {
		if err != nil {
			break
		}
		if kernelVMA(a) {
			continue
		}
		err = eachEntry(pagemap, run{a.Start, a.End}, func(page run, bits uint64) {
			switch {
			case bits&entryPresent == 0:
			case bits&entryFile != 0:
				read = extend(read, page)
			case bits&entryExclusive != 0:
				written = extend(written, page)
			}
		})
	}
	return written, read, err
}

// clearSoftDirty marks every page of a process as unwritten.
func clearSoftDirty(pid int) error {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/clear_refs", pid), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte("4"))
	return os.NewSyscallError("write", err)
}

// softDirty says whether the kernel notes which pages are written. One that does
// not takes the same commands, and shows every page as unwritten.
var softDirty = sync.OnceValue(func() bool {
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return false
	}
	defer pagemap.Close()
	memory, err := unix.Mmap(-1, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return false
	}
	defer unix.Munmap(memory) //nolint:errcheck // a page that is only lost
	memory[0] = 1
	start := uint64(uintptr(unsafe.Pointer(&memory[0])))
	noted := false
	err = eachEntry(pagemap, run{start, start + pageSize}, func(_ run, bits uint64) { noted = bits&entryDirty != 0 })
	return err == nil && noted
})
