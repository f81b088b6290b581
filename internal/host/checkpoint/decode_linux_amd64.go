package checkpoint

import (
	"errors"
	"os"
	"strings"
	"time"

	"aether/internal/host/confine"
	"aether/internal/host/inroot"
	"aether/internal/host/ptrace"
	"aether/internal/host/seccomp"

	"golang.org/x/sys/unix"
)

// Decode gives the checkpoint that was encoded, to be restored in the cell of that
// root and those ids, whose clocks are so far ahead of this program's.
//
// Nothing in the image is believed. What it may say is bounded as what a process may
// have is; that a process has the rights of its cell only, whatever its registers and
// memory are, is for Restore to see to. Errors: Invalid for what Encode did not
// write, Conflict for processes that cannot go on on this machine or with the files
// of this root.
func (im *Image) Decode(open Files, root *inroot.Root, ids confine.Identity, ahead time.Duration) (*Checkpoint, error) {
	machine, err := ThisMachine()
	if err != nil {
		return nil, err
	}
	machine.Clock += ahead
	if err := machine.Runs(im.Machine); err != nil {
		return nil, err
	}
	c := &Checkpoint{Shared: NewSharedObjects()}
	if err := im.decodeInto(c, open, root, ids); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (im *Image) decodeInto(c *Checkpoint, open Files, root *inroot.Root, ids confine.Identity) error {
	if err := im.decodeProcesses(c, open, ids); err != nil {
		return err
	}
	if err := im.checkFiles(c.Processes, root); err != nil {
		return err
	}
	for i, p := range c.Processes {
		var err error
		if p.Pages, err = open(pagesName(i)); err != nil {
			return err
		}
		if err := p.State.checkPages(p.Pages); err != nil {
			return err
		}
	}
	return nil
}

func (im *Image) decodeProcesses(c *Checkpoint, open Files, ids confine.Identity) error {
	if err := im.openContents(open, c.Shared); err != nil {
		return err
	}
	if len(im.Processes) > maxProcesses {
		return damaged("%d processes", len(im.Processes))
	}
	d := &decoder{contents: im.Contents, taken: map[int]bool{}, ids: ids}
	for i := range im.Processes {
		if err := d.process(c, &im.Processes[i]); err != nil {
			return err
		}
	}
	return nil
}

const (
	maxProcesses = 1024
	maxContents  = 4096
	maxName      = 4096 // of a file
	maxAuxiliary = 4096
	maxExtended  = 64 << 10
	maxPipe      = 16 << 20
	maxGroups    = 65536
	maxNumber    = 1 << 22 // of a process: PID_MAX_LIMIT
	maxFile      = 1<<63 - 1
	minAddress   = pageSize // there is never anything at 0
)

// openContents opens what was in files without a name. shared closes it.
func (im *Image) openContents(open Files, shared *SharedObjects) (err error) {
	if len(im.Contents) > maxContents {
		return damaged("%d contents", len(im.Contents))
	}
	all := uint64(0)
	for i, c := range im.Contents {
		if c == nil {
			return damaged("no content")
		}
		c.packed, c.id, c.Mode = true, fileID{inode: uint64(i)}, c.Mode&0o777
		if err := checkRuns(c.Data, 1, maxFile, maxDataRuns); err != nil {
			return err
		}
		if c.file, err = open(contentName(i)); err != nil {
			return err
		}
		shared.contents[c.id] = c
		info, err := c.file.Stat()
		if err != nil {
			return err
		}
		all += sizeOf(c.Data)
		switch last := len(c.Data) - 1; {
		case uint64(info.Size()) != sizeOf(c.Data) || all > maxContent || c.Size < 0 || last >= 0 && c.Data[last].End > uint64(c.Size):
			return damaged("a content of %d bytes", c.Size)
		case !plainName(string(c.Name)) || !plainName(string(c.Dir)) || !c.Memory && !strings.HasPrefix(string(c.Dir), "/"):
			return damaged("a content that is called %.80q, in %.80q", c.Name, c.Dir)
		}
	}
	return nil
}

func sizeOf(list []run) (total uint64) {
	for _, r := range list {
		total += r.size()
	}
	return total
}

// checkRuns wants runs in order, in whole units, below an end.
func checkRuns(list []run, unit, end uint64, most int) error {
	if len(list) > most {
		return damaged("%d ranges", len(list))
	}
	last := uint64(0)
	for _, r := range list {
		if r.Start < last || r.End <= r.Start || r.End > end || r.Start%unit != 0 || r.End%unit != 0 {
			return damaged("a range %x-%x after %x", r.Start, r.End, last)
		}
		last = r.End
	}
	return nil
}

func plainName(s string) bool { return len(s) <= maxName && !strings.ContainsRune(s, 0) }

// decoder checks processes one after another.
type decoder struct {
	contents []*Content
	taken    map[int]bool // numbers in the cell, of threads too
	ids      confine.Identity
	capacity int // of all pipes
}

// process adds a process to the checkpoint.
func (d *decoder) process(c *Checkpoint, doc *processImage) (err error) {
	place := len(c.Processes)
	p := &Process{HostPID: doc.Was, Orphan: doc.Orphan}
	if doc.Parent < Outside || doc.Parent >= place || doc.Orphan && doc.Parent != Outside {
		return damaged("process %d with the parent %d", place, doc.Parent)
	}
	if doc.Parent >= 0 {
		p.Parent = c.Processes[doc.Parent]
		p.Parent.Children = append(p.Parent.Children, p)
	}
	if p.Place, err = doc.Place.decode(d.ids); err != nil {
		return err
	}
	if p.State, err = d.state(&doc.State); err != nil {
		return err
	}
	if p.Descriptors, err = d.descriptors(doc.Descriptors); err != nil {
		return err
	}
	if p.Mappings, err = d.mappings(doc.Mappings, p.State.vmas); err != nil {
		return err
	}
	c.Processes = append(c.Processes, p)
	return nil
}

func (doc placeImage) decode(ids confine.Identity) (p Place, err error) {
	p = Place{Dir: string(doc.Dir), Root: string(doc.Root), Program: string(doc.Program), Group: doc.Group, Session: doc.Session, Terminal: doc.Terminal}
	if !plainName(p.Dir) || !plainName(p.Root) || !plainName(p.Program) || !strings.HasPrefix(p.Dir, "/") || len(doc.Groups) > maxGroups {
		return p, damaged("a process in %.80q", p.Dir)
	}
	for _, gid := range append([]uint32{doc.GID}, doc.Groups...) {
		if _, _, err := ids.ToHost(doc.UID, gid); err != nil {
			return p, err // the cell has no such id
		}
	}
	p.UID, p.GID, p.Groups = doc.UID, doc.GID, doc.Groups
	return p, nil
}

func (d *decoder) state(doc *stateImage) (s *State, err error) {
	s = &State{Tracee: &Tracee{NSPid: doc.NSPid, Name: string(doc.Name), syscallAt: doc.SyscallAt}, attributes: doc.attributes}
	s.Umask, s.Membarriers = s.Umask&0o777, s.Membarriers&allMembarriers
	if s.Personality&^seccomp.AddrNoRandomize != 0 { // what the filter allows
		return nil, damaged("process %d, of the personality %x", doc.NSPid, s.Personality)
	}
	if len(doc.Name) > maxName || len(s.Auxv) > maxAuxiliary || len(s.Auxv)%16 != 0 || doc.SyscallAt >= userEnd {
		return nil, damaged("process %d", doc.NSPid)
	}
	for _, err := range []error{doc.decodeVMAs(s), s.checkSignals(), s.checkTimers()} {
		if err != nil {
			return nil, err
		}
	}
	if len(doc.Threads) == 0 || len(doc.Threads) > maxThreads || doc.Threads[0].NSPid != doc.NSPid {
		return nil, damaged("process %d, with %d threads", doc.NSPid, len(doc.Threads))
	}
	for _, t := range doc.Threads {
		if t.NSPid < 2 || t.NSPid > maxNumber || d.taken[t.NSPid] {
			return nil, damaged("a thread that has the number %d", t.NSPid)
		}
		d.taken[t.NSPid] = true
		if err := t.check(); err != nil {
			return nil, err
		}
		s.threads = append(s.threads, &thread{threadState: t})
	}
	return s, nil
}

func (doc *stateImage) decodeVMAs(s *State) (err error) {
	if len(doc.VMAs) > maxVMAs {
		return damaged("%d mappings", len(doc.VMAs))
	}
	last := uint64(0)
	for _, a := range doc.VMAs {
		area := VMA{Start: a.Start, End: a.End, Read: a.Protection&unix.PROT_READ != 0, Write: a.Protection&unix.PROT_WRITE != 0,
			Exec: a.Protection&unix.PROT_EXEC != 0, Offset: a.Offset, Inode: a.Inode, Name: string(a.Name), flags: a.Flags}
		if a.Start < max(last, minAddress) || a.End <= a.Start || a.End > userEnd || (a.Start|a.End|a.Offset)%pageSize != 0 ||
			!plainName(area.Name) || len(a.Flags) > maxName || area.file() && !strings.HasPrefix(area.Name, "/") && !kernelVMA(area) {
			return damaged("a mapping %x-%x of %.80q", a.Start, a.End, a.Name)
		}
		last = a.End
		s.vmas = append(s.vmas, area)
	}
	if err := checkRuns(doc.Own, pageSize, userEnd, userEnd/pageSize); err != nil {
		return err
	}
	s.own = doc.Own
	if len(minus(s.own, runsOf(s.vmas))) > 0 {
		return damaged("pages of process %d that are in none of its mappings", doc.NSPid)
	}
	return nil
}

func (a *attributes) checkSignals() error {
	for signal := range a.Actions {
		if signal < 1 || signal > 64 {
			return damaged("an action for signal %d", signal)
		}
	}
	return checkQueued(a.Queued)
}

func checkQueued(list []ptrace.SignalInfo) error {
	if len(list) > maxPending {
		return damaged("%d pending signals", len(list))
	}
	for i := range list {
		if n := list[i].Number(); n < 1 || n > 64 {
			return damaged("a pending signal %d", n)
		}
	}
	return nil
}

func (a *attributes) checkTimers() error {
	if len(a.PosixTimers) > maxTimers {
		return damaged("%d timers", len(a.PosixTimers))
	}
	seen := map[int]bool{}
	for _, t := range a.PosixTimers {
		if t.ID < 0 || t.ID >= maxTimers || seen[t.ID] || t.Clock < 0 {
			return damaged("a timer with the number %d", t.ID)
		}
		seen[t.ID] = true
	}
	return nil
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
