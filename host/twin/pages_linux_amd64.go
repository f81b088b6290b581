package twin

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const pageSize = 4096

// Categories of pages, as PAGEMAP_SCAN knows them.
const (
	pageWritten = 1 << 1 // since a tracker protected it
	pageFile    = 1 << 2
	pagePresent = 1 << 3
	pageSwapped = 1 << 4
	pageZero    = 1 << 5
)

// scanArgs is the kernel's struct pm_scan_arg, scanned its page_region.
type (
	scanArgs struct {
		size, flags, start, end, walkEnd, vec, vecLen, maxPages uint64
		inverted, mask, anyOf, report                           uint64
	}
	scanned struct{ start, end, categories uint64 }
)

const (
	pagemapScan  = 0xc0606610 // _IOWR('f', 16, struct pm_scan_arg)
	scanProtects = 1          // PM_SCAN_WP_MATCHING
)

// ownPages finds the pages of a process that belong to it alone: those that were
// ever written, in memory or swapped out, and of them those that were since a
// tracker protected them. Those of shared memory are not among them.
func ownPages(pid int, areas []Area) (own, written []run, err error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	own, written, err = scanPages(f, areas, 0)
	if err == unix.ENOTTY {
		own, err = readPages(f, areas)
		written = own
	}
	return own, written, err
}

// protectPages has a tracker notice the next write to every page of a process's
// own.
func protectPages(pid int, areas []Area) error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		return err
	}
	defer f.Close()
	_, _, err = scanPages(f, areas, scanProtects)
	return err
}

// scanPages asks the kernel (6.7 and later) for the ranges in one go.
func scanPages(f *os.File, areas []Area, flags uint64) (own, written []run, err error) {
	if len(areas) == 0 {
		return nil, nil, nil
	}
	found := make([]scanned, 4096)
	args := scanArgs{size: uint64(unsafe.Sizeof(scanArgs{})), flags: flags, start: areas[0].Start, end: userEnd,
		vec: uint64(uintptr(unsafe.Pointer(&found[0]))), vecLen: uint64(len(found)),
		inverted: pageFile | pageZero, mask: pageFile | pageZero, anyOf: pagePresent | pageSwapped, report: pageWritten}
	for args.start < args.end {
		n, _, errno := syscall.Syscall(unix.SYS_IOCTL, f.Fd(), pagemapScan, uintptr(unsafe.Pointer(&args)))
		if errno != 0 {
			return nil, nil, errno
		}
		for _, r := range found[:n] {
			own = extend(own, run{r.start, r.end})
			if r.categories&pageWritten != 0 {
				written = extend(written, run{r.start, r.end})
			}
		}
		if args.walkEnd <= args.start {
			break
		}
		args.start = args.walkEnd
	}
	return own, written, nil
}

// extend adds a run to a list, as part of the last if it follows that one.
func extend(list []run, r run) []run {
	if last := len(list) - 1; last >= 0 && list[last].end == r.start {
		list[last].end = r.end
		return list
	}
	return append(list, r)
}

// readPages reads the map of every page of every area.
func readPages(f *os.File, areas []Area) ([]run, error) {
	const (
		entry   = 8
		chunk   = 64 << 10
		present = 1 << 63
		swapped = 1 << 62
		file    = 1 << 61
	)
	var runs []run
	buf := make([]byte, chunk)
	for _, a := range areas {
		if a.Shared {
			continue
		}
		for page := a.Start; page < a.End; {
			want := min((a.End-page)/pageSize*entry, chunk)
			n, err := f.ReadAt(buf[:want], int64(page/pageSize*entry))
			if n < entry {
				if err == nil || err == io.EOF {
					break // beyond what the kernel shows
				}
				return nil, err
			}
			for i := 0; i+entry <= n; i, page = i+entry, page+pageSize {
				bits := binary.LittleEndian.Uint64(buf[i:])
				if bits&(present|swapped) != 0 && bits&file == 0 {
					runs = extend(runs, run{page, page + pageSize})
				}
			}
		}
	}
	return runs, nil
}
