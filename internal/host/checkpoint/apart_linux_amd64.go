package checkpoint

import (
	"errors"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// parts are what processes and threads can have together or apart (clone), as kcmp
// numbers it. Each restored process has all of its own, and each thread those of its
// process.
var parts = []struct {
	kind  uintptr
	name  string
	whose string // of threads that have one of their own, or empty: all share it
}{
	{1, "memory", ""},
	{2, "descriptors", "descriptors"},
	{3, "directory", "a directory"},
}

// checkApart refuses processes that have something together which those that are made
// of them would have apart, and threads that have apart what theirs would have together.
func (s *Stopped) checkApart() error {
	for _, part := range parts {
		if err := s.checkProcesses(part.kind, part.name); err != nil {
			return err
		}
		for _, t := range s.tracees {
			if err := t.checkThreads(part.kind, part.whose); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkProcesses compares all processes. The kernel has an order of what they have, so
// that few have to be compared.
func (s *Stopped) checkProcesses(kind uintptr, name string) (refusal error) {
	if len(s.tracees) < 2 {
		return nil
	}
	var failed error
	slices.SortFunc(slices.Clone(s.tracees), func(a, b *Tracee) int {
		order, err := compareTasks(a.PID, b.PID, kind)
		if err != nil {
			failed = err
		} else if order == 0 && a != b {
			refusal = a.refuse(false, "shares its %s with process %d", name, b.NSPid)
		}
		return order
	})
	if failed != nil {
		return failed
	}
	return refusal
}

func (p *Tracee) checkThreads(kind uintptr, whose string) error {
	if whose == "" || len(p.threads) < 2 {
		return nil
	}
	for _, t := range p.threads[1:] {
		order, err := compareTasks(p.PID, t.TID, kind)
		if err != nil {
			return err
		}
		if order != 0 {
			return p.refuse(false, "has a thread with %s of its own", whose)
		}
	}
	return nil
}

// compareTasks gives the kernel's order of what two processes or threads have.
func compareTasks(a, b int, kind uintptr) (int, error) { return compare(a, b, kind, 0, 0) }

// compare asks the kernel for its order of two things (kcmp).
func compare(a, b int, kind, ofA, ofB uintptr) (int, error) {
	order, _, errno := syscall.RawSyscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), kind, ofA, ofB, 0)
	switch {
	case errno != 0:
		return 0, os.NewSyscallError("kcmp", errno)
	case order == 1:
		return -1, nil
	case order == 2:
		return 1, nil
	case order != 0:
		return 0, errors.New("checkpoint: the kernel has no order of what processes have")
	}
	return 0, nil
}
