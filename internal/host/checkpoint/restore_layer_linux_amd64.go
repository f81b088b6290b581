package checkpoint

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	// maxAside bounds the pages of one mapping that are put aside: there is as much room
	// behind the script.
	maxAside = 512 << 20
	// maxRunsAside bounds the steps that it takes.
	maxRunsAside = 256
)

// layeredFiles are the paths of the files that a child maps from its own layer, each
// once.
func (s *State) layeredFiles() (names []string) {
	for _, a := range s.vmas {
		if a.layered && !slices.Contains(names, a.Name) {
			names = append(names, a.Name)
		}
	}
	return names
}

// layerFiles opens them in the new cell, for a process whose memory is that of a
// zygote: others do so themselves.
func (r *FileRestorer) layerFiles(p *Process) (list []*os.File, err error) {
	if p.Pages != nil {
		return nil, nil
	}
	for _, name := range p.State.layeredFiles() {
		f, err := r.openPath(name, os.O_RDONLY)
		if err != nil {
			return nil, p.refuse("maps %s, which cannot be opened again: %v", name, err)
		}
		list = append(list, r.give(f))
	}
	return list, nil
}

// mapLayered appends the mapping of the files that were received from first on, in
// place of the memory that the zygote has for them.
func (r *Restore) mapLayered(p *RestoreSpec, first int) {
	if len(p.LayerFiles) == 0 {
		return
	}
	state := p.Process.State
	names := state.layeredFiles()
	var copied []transfer
	for _, a := range state.vmas {
		if a.layered {
			copied = append(copied, r.mapLayer(state, a, first+slices.Index(names, a.Name))...)
		}
	}
	check := p.check
	p.check = func() error {
		if check != nil {
			return errors.Join(check(), checkCopied(copied))
		}
		return checkCopied(copied)
	}
}

// mapLayer appends the mapping of one file. The process's own pages are put aside, and
// copied to where they belong.
func (r *Restore) mapLayer(state *State, a VMA, file int) (copied []transfer) {
	s, own := r.steps, both([]run{{a.Start, a.End}}, state.own)
	aside, size := r.walker.aside(), sizeOf(own)
	at := aside
	for _, o := range own {
		const fixed = unix.MREMAP_MAYMOVE | unix.MREMAP_FIXED
		s.Call(unix.SYS_MREMAP, uintptr(o.Start), uintptr(o.size()), uintptr(o.size()), fixed, uintptr(at))
		at += o.size()
	}
	prot := protection(a)
	if size > 0 {
		s.Call(unix.SYS_MPROTECT, uintptr(aside), uintptr(size), unix.PROT_READ)
		prot = unix.PROT_READ | unix.PROT_WRITE
	}
	s.Call(unix.SYS_MMAP, uintptr(a.Start), uintptr(a.Size()), prot, unix.MAP_PRIVATE|unix.MAP_FIXED|unix.MAP_NORESERVE, uintptr(file), uintptr(a.Offset))
	for _, advice := range adviceOf(a) {
		s.Call(unix.SYS_MADVISE, uintptr(a.Start), uintptr(a.Size()), uintptr(advice)).MayFail()
	}
	if size == 0 {
		return nil
	}
	at = aside
	for len(own) > 0 {
		n := min(len(own), iovMax)
		copied = append(copied, r.copyWithin(state.NSPid, own[:n], at))
		at, own = at+sizeOf(own[:n]), own[n:]
	}
	s.Call(unix.SYS_MUNMAP, uintptr(aside), uintptr(size))
	if prot != protection(a) {
		s.Call(unix.SYS_MPROTECT, uintptr(a.Start), uintptr(a.Size()), protection(a))
	}
	return copied
}

// copyWithin appends the copying of what is at an address, one run after another, to
// other places of the same process.
func (r *Restore) copyWithin(pid int, to []run, from uint64) transfer {
	s := r.steps
	places, mem := s.Bytes(16 * len(to))
	for i, r := range to {
		binary.NativeEndian.PutUint64(mem[16*i:], r.Start)
		binary.NativeEndian.PutUint64(mem[16*i+8:], r.size())
	}
	source, mem := s.Bytes(16)
	binary.NativeEndian.PutUint64(mem, from)
	binary.NativeEndian.PutUint64(mem[8:], sizeOf(to))
	step := s.Call(unix.SYS_PROCESS_VM_READV, uintptr(pid), places, uintptr(len(to)), source, 1, 0)
	return transfer{step, sizeOf(to)}
}

// aside is where there is room in a process that walks the script.
func (w Walker) aside() uint64 {
	at, _, size := w.Script.Mapping()
	const room = 1 << 20
	return (uint64(at+size) + room) &^ (room - 1)
}
