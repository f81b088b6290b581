package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// WorkingSet is the memory that forks of a zygote have used, two at least: the
// pages that they wrote, of which each then has copies of its own, and those that
// they read of files. A child that is born with them does not have to stop at
// each. The zero value has learned nothing.
type WorkingSet struct {
	written, read pageSet
	samples       atomic.Int32
}

// Samples is from how many children it has learned, and Full says that there is
// nothing more to learn. They may be asked at any time.
func (w *WorkingSet) Samples() int { return int(w.samples.Load()) }
func (w *WorkingSet) Full() bool   { return w.Samples() >= enoughSamples }

// pageSet are pages that were used once, and of them those that were again.
type pageSet struct{ once, again []run }

func (s *pageSet) add(list []run) {
	s.again = union(s.again, both(s.once, list))
	s.once = union(s.once, list)
}

func union(a, b []run) []run { return merged(a, minus(b, a)) }

const (
	// enoughSamples children tell what more would tell.
	enoughSamples = 8
	// A child that used more than this has done much else since its birth.
	maxWrittenPages = 1 << 10
	maxReadPages    = 1 << 12
	maxRuns         = 1 << 10
)

// Sample looks at a fork of the zygote. Both must be alive: only then is what the
// two still share known from what the child has for itself.
func (w *WorkingSet) Sample(pid int) error {
	if w.Full() {
		return nil
	}
	written, read, err := touched(pid)
	if err != nil {
		return fmt.Errorf("checkpoint: learn from %d: %w", pid, err)
	}
	if pages(written) > maxWrittenPages || pages(read) > maxReadPages || len(written)+len(read) > maxRuns {
		return nil
	}
	w.written.add(written)
	w.read.add(read)
	w.samples.Add(1)
	return nil
}

func pages(list []run) (n uint64) {
	for _, r := range list {
		n += r.size() / pageSize
	}
	return n
}

// Prefault appends the making of the pages. What is no longer there is left out.
// The kernel's page with the time, which is not to be had in that way, is made by a
// call that reads it and then fails, for there is no such process.
func (w *WorkingSet) Prefault(script *spawn.Script, s *State) {
	for _, a := range s.vmas {
		if a.Name == "[vvar]" {
			const nobody = 1 << 30
			script.Call(unix.SYS_SCHED_SETAFFINITY, nobody, 8, uintptr(a.Start)).MayFail()
		}
	}
	for _, r := range w.read.again {
		script.Call(unix.SYS_MADVISE, uintptr(r.Start), uintptr(r.size()), unix.MADV_POPULATE_READ).MayFail()
	}
	for _, r := range w.written.again {
		script.Call(unix.SYS_MADVISE, uintptr(r.Start), uintptr(r.size()), unix.MADV_POPULATE_WRITE).MayFail()
	}
}

// touched finds the pages of a process that are its own and nobody else's, and
// those that it has of files.
func touched(pid int) (written, read []run, err error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	q := query{excluded: pageZero, wanted: pagePresent, report: pageFile}
	var failed error
	err = q.scan(f, run{0, userEnd}, func(r scanned) {
		if r.categories&pageFile != 0 {
			read = extend(read, run{r.start, r.end})
		} else if failed == nil {
			written, failed = exclusive(f, written, run{r.start, r.end})
		}
	})
	if err == unix.ENOTTY { // before 6.7
		return readTouched(f, pid)
	}
	return written, read, errors.Join(err, failed)
}

// exclusive adds those pages of a run that no other process has.
func exclusive(pagemap *os.File, list []run, r run) ([]run, error) {
	err := eachEntry(pagemap, r, func(page run, bits uint64) {
		if bits&entryExclusive != 0 {
			list = extend(list, page)
		}
	})
	return list, err
}
