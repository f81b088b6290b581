package checkpoint

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"aether/internal/host/spawn"
)

// BecomeAnew appends the steps by which a process of a cell that is a copy of the
// one with that number, which has nothing but the script, takes on the memory of
// the state's process: its own pages from the file that it has at memoryFd, and
// files by their paths in the cell. The lowest descriptor that is free must be the
// next.
func (s *State) BecomeAnew(script *spawn.Shared, pid int) (check func() error, err error) {
	at, _, size := script.Mapping()
	b := builder{Script: script.Script, state: s, inside: true}
	if err := b.shed(pid, uint64(at), uint64(at+size)); err != nil {
		return nil, err
	}
	s.written = s.own
	copied := b.change(&State{})
	s.Describe(script.Script, -1)
	return func() error { return s.checkCopied(copied) }, nil
}

// CheckMemory refuses a file that cannot be the memory of the state's process.
func (s *State) CheckMemory(file *os.File) error {
	total := sizeOf(s.own)
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if uint64(info.Size()) != total {
		return damaged("process %d has %d bytes of memory, where there are %d", s.Inside, total, info.Size())
	}
	return nil
}

// FreeFor finds room for so many bytes where none of the processes has anything.
func FreeFor(list []Process, size uint64) (uint64, error) {
	var all []Area
	for _, p := range list {
		all = append(all, p.State.areas...)
		for _, m := range p.Mappings {
			all = append(all, Area{Start: m.Start, End: m.Start + m.Size})
		}
	}
	slices.SortFunc(all, func(a, b Area) int { return cmp.Compare(a.Start, b.Start) })
	at, err := gap(all, size)
	if err != nil {
		return 0, fmt.Errorf("twin: recall: %w", err)
	}
	return at, nil
}
