package checkpoint

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const pageSize = 4096

// Categories of pages, as PAGEMAP_SCAN knows them.
const (
	pageTracked = 1 << 0 // a tracker watches the mapping that it is in
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

// foundPages are those of a process that belong to it alone: those that were ever
// written, in memory or swapped out. Those of shared memory are not among them.
type foundPages struct {
	own     []run
	written []run // of them, since a tracker protected them
	// fresh are those that a tracker has not protected, whosever they are; all of
	// them if the pages were found again.
	fresh []run
	again bool
	// untracked says that some are in mappings that no tracker watches.
	untracked bool
}

// findPages finds the pages of a process. was are those that were found before, if
// a tracker has protected every page since; otherwise nil.
func findPages(pid int, areas []VMA, was *foundPages) (p foundPages, err error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		return p, err
	}
	defer f.Close()
	p.again = was != nil
	var untracked []run
	if p.again && len(areas) > 0 {
		untracked, err = runsIn(f, query{excluded: pageZero | pageTracked, anyOf: pageThere}, run{areas[0].Start, userEnd})
	}
	private := runsOf(areas)
	p.untracked = len(both(untracked, private)) > 0
	for _, s := range stretches(areas) {
		if err != nil {
			break
		}
		if s.anonymous || !p.again {
			err = p.scan(f, s)
		} else {
			err = p.scanAgain(f, both(private, []run{s.run}), was.own, untracked)
		}
	}
	if err == unix.ENOTTY { // before 6.7
		return readPages(f, areas, was)
	}
	return p, err
}

// scan finds the pages of a stretch.
func (p *foundPages) scan(f *os.File, s stretch) error {
	q := query{excluded: pageZero, anyOf: pageThere, report: pageTracked | pageWritten | pagePresent}
	if !s.anonymous {
		q.excluded |= pageFile
	}
	return q.scan(f, s.run, func(r scanned) {
		if p.add(r, s.anonymous) {
			p.fresh = extend(p.fresh, run{r.start, r.end})
		}
	})
}

// add adds a page of the process's own, and says whether it may have been written.
func (p *foundPages) add(r scanned, anonymous bool) (written bool) {
	p.own = extend(p.own, run{r.start, r.end})
	switch {
	case r.categories&pageWritten != 0:
	case r.categories&pageTracked == 0:
		// The kernel forgets to watch a mapping that memory was moved next to
		// (mremap), but leaves its pages protected.
	case r.categories&pagePresent == 0 && !anonymous:
		// It may be swapped out. Or it was given back, so that the file shows
		// again, and is still protected.
	default:
		return false
	}
	p.written = extend(p.written, run{r.start, r.end})
	return true
}

// scanAgain finds the pages of a stretch in which there may be pages of files. It
// looks only at those that were the process's own and at those that are new: a
// page of a file that is still protected is still one.
func (p *foundPages) scanAgain(f *os.File, private, own, untracked []run) error {
	if len(private) == 0 {
		return nil
	}
	within := run{private[0].Start, private[len(private)-1].End}
	written, err := runsIn(f, query{excluded: pageZero, wanted: pageWritten, anyOf: pageThere}, within)
	if err != nil {
		return err
	}
	fresh := both(union(written, untracked), private)
	p.fresh = append(p.fresh, fresh...)
	q := query{excluded: pageZero | pageFile, anyOf: pageThere, report: pageTracked | pageWritten | pagePresent}
	for _, r := range near(union(fresh, both(own, private))) {
		if err := q.scan(f, r, func(r scanned) { p.add(r, false) }); err != nil {
			return err
		}
	}
	return nil
}

// near joins runs with few pages between them: asking once more takes longer.
func near(list []run) (joined []run) {
	const few = 8 * pageSize
	for _, r := range list {
		if last := len(joined) - 1; last >= 0 && r.Start-joined[last].End <= few {
			joined[last].End = r.End
		} else {
			joined = append(joined, r)
		}
	}
	return joined
}

// protectPages has a tracker notice the next write to every page of a process.
func protectPages(pid int, areas []VMA) error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		return err
	}
	defer f.Close()
	q := query{excluded: pageZero, anyOf: pageThere, flags: scanProtects}
	for _, s := range stretches(areas) {
		if err := q.scan(f, s.run, func(scanned) {}); err != nil {
			return err
		}
	}
	return nil
}

// query is what pages are looked for: of no category that is excluded, of all that
// are wanted and of any of a set.
type query struct{ excluded, wanted, anyOf, report, flags uint64 }

const pageThere = pagePresent | pageSwapped

// runsIn lists where such pages are.
func runsIn(f *os.File, q query, within run) (list []run, err error) {
	err = q.scan(f, within, func(r scanned) { list = extend(list, run{r.start, r.end}) })
	return list, err
}

// scan asks the kernel (6.7 and later) for the ranges.
func (q query) scan(f *os.File, within run, found func(scanned)) error {
	room := scanRoom.Get().(*[256]scanned)
	defer scanRoom.Put(room)
	args := scanArgs{size: uint64(unsafe.Sizeof(scanArgs{})), flags: q.flags, start: within.Start, end: within.End,
		vec: uint64(uintptr(unsafe.Pointer(&room[0]))), vecLen: uint64(len(room)),
		inverted: q.excluded, mask: q.excluded | q.wanted, anyOf: q.anyOf, report: q.report}
	for args.start < args.end {
		n, _, errno := syscall.Syscall(unix.SYS_IOCTL, f.Fd(), pagemapScan, uintptr(unsafe.Pointer(&args)))
		if errno != 0 {
			return errno
		}
		for _, r := range room[:n] {
			found(r)
		}
		if args.walkEnd <= args.start {
			break
		}
		args.start = args.walkEnd
	}
	return nil
}

// scanRoom is never on a stack, which may move while the kernel has its address.
var scanRoom = sync.Pool{New: func() any { return new([256]scanned) }}

// stretch is a part of the addresses.
type stretch struct {
	run
	anonymous bool // all of it
}

// stretches divides all addresses into the few that large anonymous mappings have,
// and those between. The kernel can tell pages of files from others only by a
// look at what it knows of each page, which takes several times as long as all
// the rest; in an anonymous mapping there are none.
func stretches(areas []VMA) (list []stretch) {
	const large = 1 << 20
	if len(areas) == 0 {
		return nil
	}
	at := areas[0].Start
	for _, a := range areas {
		if a.file() || a.Shared || kernelVMA(a) || a.Size() < large {
			continue
		}
		if at < a.Start {
			list = append(list, stretch{run{at, a.Start}, false})
		}
		list = append(list, stretch{run{a.Start, a.End}, true})
		at = a.End
	}
	if at < userEnd {
		list = append(list, stretch{run{at, userEnd}, false})
	}
	return list
}
