package checkpoint

import (
	"cmp"
	"os"
	"slices"

	"aether/internal/host/spawn"
)

// RestoreMemoryAnew appends the steps by which a process of a cell that is a copy of the
// one with that number, which has nothing but the script, takes on the memory of
// the state's process: its own pages from the file that it has at memoryFd, and
// files by their paths in the cell. The lowest descriptor that is free must be the
// next.
func (s *State) RestoreMemoryAnew(script *spawn.Shared, pid int) (check func() error, err error) {
	at, _, size := script.Mapping()
	b := memorySteps{Script: script.Script, state: s, inside: true}
	if err := b.unmapOwn(pid, uint64(at), uint64(at+size)); err != nil {
		return nil, err
	}
	s.written = s.own
	copied := b.diffMemory(&State{})
	s.SetMM(script.Script, -1)
	return func() error { return s.checkCopied(copied) }, nil
}

// checkPages refuses a file that cannot have the process's own pages.
func (s *State) checkPages(file *os.File) error {
	total := sizeOf(s.own)
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if uint64(info.Size()) != total {
		return damaged("process %d has %d bytes of memory, where there are %d", s.NSPid, total, info.Size())
	}
	return nil
}

// FreeAddress finds room for so many bytes where none of the processes has anything.
func (c *Checkpoint) FreeAddress(size uint64) (uint64, error) {
	var all []VMA
	for _, p := range c.Processes {
		all = append(all, p.State.vmas...)
		for _, m := range p.Mappings {
			all = append(all, VMA{Start: m.Start, End: m.Start + m.Size})
		}
	}
	slices.SortFunc(all, func(a, b VMA) int { return cmp.Compare(a.Start, b.Start) })
	return findGap(all, size)
}
