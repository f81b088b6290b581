package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// OpenFd is the descriptor at which a zygote opens files: its lowest that is free.
const OpenFd = 3

// iovMax is how many ranges one call transfers.
const iovMax = 1024

// StartScript makes a process that sleeps in the pause program, with the memory of a
// script as its descriptor file, walk that script. It must be called on a thread
// for tracing.
func StartScript(pid, file int, script *spawn.Shared) error {
	p := &Tracee{PID: pid}
	if err := p.stop(); err != nil {
		return errors.Join(err, p.release())
	}
	if err := p.startScript(file, script); err != nil {
		return errors.Join(fmt.Errorf("checkpoint: start: %w", err), p.release())
	}
	return p.release()
}

func (p *Tracee) startScript(file int, script *spawn.Shared) error {
	t := p.threads[0]
	regs, err := t.Registers()
	if err != nil {
		return err
	}
	const site = spawn.StubSyscall
	at, code, size := script.Mapping()
	for _, m := range []struct{ at, size, prot, flags, offset uintptr }{
		{at, code, unix.PROT_READ | unix.PROT_EXEC, unix.MAP_PRIVATE, 0},
		{at + code, size - code, unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED, code},
	} {
		got, err := t.Call(&regs, site, unix.SYS_MMAP, uint64(m.at), uint64(m.size), uint64(m.prot),
			uint64(m.flags|unix.MAP_FIXED_NOREPLACE), uint64(file), uint64(m.offset))
		if err == nil && uintptr(got) != m.at {
			err = fmt.Errorf("map the script: %d", got)
		}
		if err != nil {
			return err
		}
	}
	run, control, step := script.Registers()
	regs.Rip, regs.Rbx, regs.R12, regs.Orig_rax = uint64(run), uint64(control), uint64(step), ^uint64(0)
	// Children have these from birth: before one is confined nothing of the
	// source's may run in it, and that is what a signal would do.
	return errors.Join(t.SetSignalMask(allSignals), t.SetRegisters(&regs))
}

// RestoreMemory appends the steps by which a zygote, number pid here, whose script it
// is, takes the memory of the state's process, which is stopped. was is the state
// whose memory it has already, or nil if it is fresh: then everything of its own goes
// but the script. It gives a check to be made once the steps have been run.
func (s *State) RestoreMemory(script *spawn.Shared, pid int, was *State) (check func() error, err error) {
	if err := s.checkRoom(script); err != nil {
		return nil, err
	}
	b := memorySteps{Script: script.Script, state: s}
	if was == nil {
		if err := b.unmapOwn(pid, script); err != nil {
			return nil, err
		}
		was = &State{}
	}
	copied := b.diffMemory(was)
	if was.Brk != s.Brk {
		s.SetMM(script.Script, -1)
	}
	return func() error { return errors.Join(checkCopied(copied), s.checkFiles(pid), s.checkLayer()) }, nil
}

// restorePages appends the steps by which a process of a cell takes the memory of the
// state's process from the file that it has at memoryFd, and files by their paths in
// the cell. The lowest descriptor that is free must be the next. The process has the
// memory of another one's state, was, or if that is nil it is a copy of the one with
// that number, which has nothing but the script.
func (s *State) restorePages(script *spawn.Shared, was *State, pid int) (check func() error, err error) {
	if err := s.checkRoom(script); err != nil {
		return nil, err
	}
	b := memorySteps{Script: script.Script, state: s, inside: true}
	if was == nil {
		err, was = b.unmapOwn(pid, script), &State{}
	} else {
		err = b.moveVDSO(was.vmas, script)
	}
	if err != nil {
		return nil, err
	}
	s.written = s.own // nothing of the other's is its
	copied := b.diffMemory(was)
	s.SetMM(script.Script, -1)
	return func() error { return checkCopied(copied) }, nil
}

// checkRoom refuses a process that has something where the script is put.
func (s *State) checkRoom(script *spawn.Shared) error {
	at, _, size := script.Mapping()
	for _, a := range s.vmas {
		if a.Start < uint64(at+size) && a.End > uint64(at) {
			return s.refuse(true, "uses the addresses that the script is put at")
		}
	}
	return nil
}

// unmapOwn appends the loss of what a fresh process has.
func (b memorySteps) unmapOwn(pid int, script *spawn.Shared) error {
	own, err := readMaps(pid)
	if err != nil {
		return err
	}
	if err := b.moveVDSO(own, script); err != nil {
		return err
	}
	at, _, size := script.Mapping()
	b.unmapRest(own, uint64(at), uint64(at+size))
	return nil
}

// diffMemory appends what makes the memory of one state that of another: mappings
// that went go, those that came are made, and what was written is copied.
func (b memorySteps) diffMemory(was *State) []transfer {
	s := b.state
	same := kept(was.vmas, s.vmas)
	if b.inside { // where the other one has memory in place of files
		plain := func(a VMA) bool { return !a.layered }
		same = minus(same, runsOf(slices.DeleteFunc(slices.Clone(was.vmas), plain)))
	}
	for _, gone := range minus(runsOf(was.vmas), same) {
		b.Call(unix.SYS_MUNMAP, uintptr(gone.Start), uintptr(gone.size()))
	}
	for _, r := range minus(both(was.own, same), s.own) {
		// Pages that the process has given back: they are empty again.
		b.Call(unix.SYS_MADVISE, uintptr(r.Start), uintptr(r.size()), unix.MADV_DONTNEED)
	}
	wanted := merged(both(s.written, same), minus(s.own, same))
	b.registerMembarriers(was)
	plan := b.plan(was, same, wanted)
	b.mapVMAs(plan)
	var closed []run
	if !b.inside {
		closed = s.closed()
	}
	transfers := append(b.copy(minus(wanted, closed)), b.copyClosed(both(wanted, closed))...)
	for _, p := range plan {
		if p.protect {
			b.Call(unix.SYS_MPROTECT, uintptr(p.Start), uintptr(p.Size()), protection(p.VMA))
		}
		if p.has("wf") && len(p.fresh) > 0 {
			b.Call(unix.SYS_MADVISE, uintptr(p.Start), uintptr(p.Size()), unix.MADV_WIPEONFORK)
		}
	}
	return transfers
}

// plannedVMA is what has to be done about a mapping.
type plannedVMA struct {
	VMA
	fresh   []run // parts to be mapped
	open    []run // parts to be made writable, to be filled
	filled  bool
	protect bool // set the protection in the end
}

func (b memorySteps) plan(was *State, same, wanted []run) (list []plannedVMA) {
	kept, fill := cursor{same}, cursor{wanted}
	before := make(map[[2]uint64]VMA, len(was.vmas))
	for _, a := range was.vmas {
		before[[2]uint64{a.Start, a.End}] = a
	}
	for _, a := range b.state.vmas {
		if kernelVMA(a) {
			continue
		}
		whole := run{a.Start, a.End}
		stays := kept.within(whole)
		p := plannedVMA{VMA: a, fresh: minus([]run{whole}, stays), filled: len(fill.within(whole)) > 0}
		old, unchanged := before[[2]uint64{a.Start, a.End}]
		unchanged = unchanged && protection(old) == protection(a)
		if p.filled && !(unchanged && a.Write) {
			p.open = stays
		}
		p.protect = p.filled && protection(a) != unix.PROT_READ|unix.PROT_WRITE || !unchanged && len(stays) > 0
		if len(p.fresh) > 0 || p.filled || p.protect {
			list = append(list, p)
		}
	}
	return list
}

func readMaps(pid int) ([]VMA, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseMaps(f)
}

// memorySteps writes the steps by which a process takes on memory.
type memorySteps struct {
	*spawn.Script
	state *State
	// NSPid says that the process is one of a cell: it opens files by their
	// paths, and its memory comes from the file at memoryFd.
	inside bool
}

// memoryFd is where a process inside has what it copies.
const memoryFd = 3

// Save copies the process's own pages to a file, one after another.
func (s *State) Save() (*os.File, error) {
	fd, err := unix.MemfdCreate("aether-pages", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), "pages")
	if err := s.saveTo(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (s *State) saveTo(file *os.File) error {
	total := sizeOf(s.own)
	if total == 0 {
		return nil
	}
	if err := file.Truncate(int64(total)); err != nil {
		return err
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var memory []byte
	if controlled := raw.Control(func(fd uintptr) {
		memory, err = unix.Mmap(int(fd), 0, int(total), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}); controlled != nil || err != nil {
		return errors.Join(controlled, err)
	}
	for at, list := 0, pieces(s.own, maxTransfer); len(list) > 0 && err == nil; list = list[1:] {
		size := int(list[0].size())
		if err = s.read(list[0].Start, memory[at:at+size]); errors.Is(err, unix.EFAULT) {
			err = s.readClosed(list[0].Start, memory[at:at+size])
		}
		at += size
	}
	s.copied = total
	return errors.Join(err, unix.Munmap(memory))
}

// moveVDSO moves the kernel's own pages to where the process has them, by way of
// free addresses, since old and new place may overlap.
func (b memorySteps) moveVDSO(own []VMA, script *spawn.Shared) error {
	mine, theirs := kernelVMAs(own), kernelVMAs(b.state.vmas)
	if len(mine) != len(theirs) {
		return b.state.refuse(false, "has other pages of the kernel than usual")
	}
	const room = 1 << 20
	at, _, size := script.Mapping()
	away := (uint64(at+size) + room) &^ (room - 1)
	const fixed = unix.MREMAP_MAYMOVE | unix.MREMAP_FIXED
	for i, a := range mine {
		if a.Size() != theirs[i].Size() || a.Name != theirs[i].Name {
			return b.state.refuse(false, "has its vdso changed")
		}
		b.Call(unix.SYS_MREMAP, uintptr(a.Start), uintptr(a.Size()), uintptr(a.Size()), fixed, uintptr(away+a.Start-mine[0].Start))
	}
	for i, a := range mine {
		from := away + a.Start - mine[0].Start
		b.Call(unix.SYS_MREMAP, uintptr(from), uintptr(a.Size()), uintptr(a.Size()), fixed, uintptr(theirs[i].Start))
	}
	return nil
}

func kernelVMAs(areas []VMA) (list []VMA) {
	for _, a := range areas {
		if isVDSO(a) {
			list = append(list, a)
		}
	}
	return list
}

// unmapRest unmaps what the process began with, but the script. The kernel's pages
// have moved, and the new place of some may be the old place of others.
func (b memorySteps) unmapRest(own []VMA, from, to uint64) {
	var keep []run
	for _, a := range kernelVMAs(b.state.vmas) {
		keep = merged(keep, []run{{a.Start, a.End}})
	}
	keep = merged(keep, []run{{from, to}})
	for _, a := range own {
		if kernelVMA(a) {
			continue
		}
		for _, r := range minus([]run{{a.Start, a.End}}, keep) {
			b.Call(unix.SYS_MUNMAP, uintptr(r.Start), uintptr(r.size()))
		}
	}
}

// mapVMAs appends the mappings. Those of files that follow each other are opened
// once.
func (b memorySteps) mapVMAs(plan []plannedVMA) {
	var open VMA
	files := b.files()
	for _, p := range plan {
		for _, r := range p.open {
			b.Call(unix.SYS_MPROTECT, uintptr(r.Start), uintptr(r.size()), unix.PROT_READ|unix.PROT_WRITE)
		}
		if len(p.fresh) == 0 {
			continue
		}
		if open.file() && (!p.mapsFile(b.inside) || p.Inode != open.Inode || p.Name != open.Name) {
			b.Call(unix.SYS_CLOSE, files.fd)
			open = VMA{}
		}
		if p.mapsFile(b.inside) && !open.file() {
			files.open(p.VMA)
			open = p.VMA
		}
		for _, r := range p.fresh {
			b.mapPart(p, r, files.fd)
		}
	}
	if open.file() {
		b.Call(unix.SYS_CLOSE, files.fd)
	}
	files.close()
}

// mapPart appends the mapping of a part of a mapping. What is to be filled must be
// writable at first.
func (b memorySteps) mapPart(p plannedVMA, r run, file uintptr) {
	flags, fd, offset, prot := uintptr(unix.MAP_FIXED_NOREPLACE), ^uintptr(0), uintptr(0), protection(p.VMA)
	if p.Shared {
		flags |= unix.MAP_SHARED
	} else {
		flags |= unix.MAP_PRIVATE | unix.MAP_NORESERVE
	}
	if p.filled {
		prot = unix.PROT_READ | unix.PROT_WRITE
	}
	if p.mapsFile(b.inside) {
		fd, offset = file, uintptr(p.Offset+r.Start-p.Start)
	} else {
		flags |= unix.MAP_ANONYMOUS
	}
	if p.has("gd") {
		flags |= unix.MAP_GROWSDOWN | unix.MAP_STACK
	}
	b.Call(unix.SYS_MMAP, uintptr(r.Start), uintptr(r.size()), prot, flags, fd, offset)
	if p.has("hg") {
		b.Call(unix.SYS_MADVISE, uintptr(r.Start), uintptr(r.size()), unix.MADV_HUGEPAGE).MayFail()
	}
}

func protection(a VMA) (prot uintptr) {
	if a.Read {
		prot |= unix.PROT_READ
	}
	if a.Write {
		prot |= unix.PROT_WRITE
	}
	if a.Exec {
		prot |= unix.PROT_EXEC
	}
	return prot
}

// transfer is a step that copies so many bytes.
type transfer struct {
	step  spawn.Step
	bytes uint64
}

// copy appends the copying of pages from the process, to the addresses where they
// are there.
func (b memorySteps) copy(wanted []run) []transfer {
	var done []transfer
	var position uint64 // in the file, for who has one
	defer func() { b.state.copied += position }()
	wanted = pieces(wanted, maxTransfer)
	for len(wanted) > 0 {
		n, total := 0, uint64(0)
		for n < len(wanted) && n < iovMax && total+wanted[n].size() <= maxTransfer {
			total += wanted[n].size()
			n++
		}
		ranges, mem := b.Bytes(16 * n)
		var bytes uint64
		for i, r := range wanted[:n] {
			binary.NativeEndian.PutUint64(mem[16*i:], r.Start)
			binary.NativeEndian.PutUint64(mem[16*i+8:], r.size())
			bytes += r.size()
		}
		step := b.fill(ranges, n, position)
		position += bytes
		done = append(done, transfer{step, bytes})
		wanted = wanted[n:]
	}
	return done
}

// fill appends the filling of so many ranges.
func (b memorySteps) fill(ranges uintptr, n int, position uint64) spawn.Step {
	if b.inside {
		return b.Call(unix.SYS_PREADV, memoryFd, ranges, uintptr(n), uintptr(position), 0)
	}
	return b.Call(unix.SYS_PROCESS_VM_READV, uintptr(b.state.PID), ranges, uintptr(n), ranges, uintptr(n), 0)
}

// maxTransfer is how much one call is asked to copy; the kernel does up to 2 GiB.
const maxTransfer = 1 << 30

// pieces splits runs that are larger than a size.
func pieces(list []run, most uint64) (small []run) {
	for _, r := range list {
		for r.size() > most {
			small = append(small, run{r.Start, r.Start + most})
			r.Start += most
		}
		small = append(small, r)
	}
	return small
}

// errShort is the failure of a copy that the kernel did not finish.
var errShort = errors.New("checkpoint: not all memory could be copied")

// checkCopied says whether everything was copied, once the steps have been made.
func checkCopied(list []transfer) error {
	for _, t := range list {
		if got := t.step.Result(); got != int64(t.bytes) {
			return fmt.Errorf("%w: %d of %d bytes", errShort, got, t.bytes)
		}
	}
	return nil
}

// SetMM appends what the kernel keeps besides: where heap, arguments and
// environment are and, unless file is negative, which program it is.
func (s *State) SetMM(script *spawn.Script, file int) {
	const mapSize = 104 // of struct prctl_mm_map
	b := memorySteps{Script: script, state: s}
	s.Layout[5] = s.Brk
	vector := b.bytes(s.Auxv)
	address, mem := b.Bytes(mapSize)
	for i, value := range s.Layout {
		binary.NativeEndian.PutUint64(mem[8*i:], value)
	}
	binary.NativeEndian.PutUint64(mem[88:], uint64(vector))
	binary.NativeEndian.PutUint32(mem[96:], uint32(len(s.Auxv)))
	binary.NativeEndian.PutUint32(mem[100:], uint32(int32(file)))
	step := b.Call(unix.SYS_PRCTL, unix.PR_SET_MM, unix.PR_SET_MM_MAP, address, mapSize, 0)
	if file >= 0 {
		// The kernel shows no program that somebody is writing to. All the rest
		// was set before.
		step.MayFail()
	}
}
