package checkpoint

import (
	"errors"
	"os"
	"slices"
	"strings"

	"aether/internal/host/inroot"
	"aether/internal/host/ptrace"

	"golang.org/x/sys/unix"
)

// Decode gives the processes of a document that was kept, and what they hold
// together: contents are the files that WriteContent wrote, which Kept closes, and
// root is that of the cell where they will be.
// Nothing in the document is believed. What it may say is bounded as what a
// process may have is; that it has the rights of its cell only, whatever its
// registers and memory are, is for those to see to who make it. Errors: Invalid, and
// Conflict if the root has other files than it had.
func (d *Image) Decode(contents []*os.File, root *inroot.Root) ([]Process, *SharedObjects, error) {
	k := NewSharedObjects()
	list, err := d.decode(k, contents)
	if err == nil {
		err = d.checkFiles(list, root)
	}
	if err != nil {
		for _, f := range contents {
			err = errors.Join(err, f.Close())
		}
		return nil, nil, err
	}
	return list, k, nil
}

func (d *Image) decode(k *SharedObjects, files []*os.File) ([]Process, error) {
	contents, err := d.decodeContents(files)
	if err != nil {
		return nil, err
	}
	if len(d.Processes) > maxProcesses {
		return nil, damaged("%d processes", len(d.Processes))
	}
	c := &decoder{contents: contents, taken: map[int]bool{}}
	var list []Process
	for i := range d.Processes {
		p, err := c.process(&d.Processes[i], i)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	for i, content := range contents {
		k.contents[fileID{inode: uint64(i)}] = content
	}
	return list, nil
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
)

func (d *Image) decodeContents(files []*os.File) (list []*Content, err error) {
	if len(d.Contents) > maxContents || len(files) != len(d.Contents) {
		return nil, damaged("%d contents, in %d files", len(d.Contents), len(files))
	}
	all := uint64(0)
	for i, doc := range d.Contents {
		c := &Content{packed: true, Memory: doc.Memory, Name: string(doc.Name), Dir: string(doc.Dir), size: doc.Size, mode: doc.Mode & 0o777, seals: doc.Seals,
			id: fileID{inode: uint64(i)}, file: files[i]}
		if c.data, err = decodeRuns(doc.Data, 1, maxFile, maxDataRuns); err != nil {
			return nil, err
		}
		info, err := files[i].Stat()
		if err != nil {
			return nil, err
		}
		all += sizeOf(c.data)
		switch last := len(c.data) - 1; {
		case uint64(info.Size()) != sizeOf(c.data) || all > maxContent || doc.Size < 0 || last >= 0 && c.data[last].end > uint64(doc.Size):
			return nil, damaged("a content of %d bytes", doc.Size)
		case !plainName(c.Name) || !plainName(c.Dir) || !c.Memory && !strings.HasPrefix(c.Dir, "/"):
			return nil, damaged("a content that is called %.80q, in %.80q", c.Name, c.Dir)
		}
		list = append(list, c)
	}
	return list, nil
}

func sizeOf(list []run) (total uint64) {
	for _, r := range list {
		total += r.size()
	}
	return total
}

// decodeRuns wants runs in order, in whole units, below an end.
func decodeRuns(pairs [][2]uint64, unit, end uint64, most int) (list []run, err error) {
	if len(pairs) > most {
		return nil, damaged("%d ranges", len(pairs))
	}
	last := uint64(0)
	for _, p := range pairs {
		if p[0] < last || p[1] <= p[0] || p[1] > end || p[0]%unit != 0 || p[1]%unit != 0 {
			return nil, damaged("a range %x-%x after %x", p[0], p[1], last)
		}
		last = p[1]
		list = append(list, run{p[0], p[1]})
	}
	return list, nil
}

func plainName(s string) bool { return len(s) <= maxName && !strings.ContainsRune(s, 0) }

// decoder checks processes one after another.
type decoder struct {
	contents []*Content
	taken    map[int]bool // numbers that are taken, of threads too
}

func (c *decoder) process(doc *processImage, place int) (p Process, err error) {
	p = Process{Parent: doc.Parent, Was: doc.Was}
	if doc.Parent < -1 || doc.Parent >= place {
		return p, damaged("process %d with the parent %d", place, doc.Parent)
	}
	if p.Place, err = doc.Place.decode(); err != nil {
		return p, err
	}
	if p.State, err = c.state(&doc.State); err != nil {
		return p, err
	}
	if p.Descriptors, err = c.descriptors(doc.Descriptors); err != nil {
		return p, err
	}
	p.Mappings, err = c.mappings(doc.Mappings)
	return p, err
}

func (doc placeImage) decode() (p Place, err error) {
	p = Place{string(doc.Dir), string(doc.Root), string(doc.Program), doc.UID, doc.GID, doc.Groups, doc.Group, doc.Session, doc.Terminal}
	if !plainName(p.Dir) || !plainName(p.Root) || !plainName(p.Program) || !strings.HasPrefix(p.Dir, "/") || len(p.Groups) > maxGroups {
		return p, damaged("a process in %.80q", p.Dir)
	}
	return p, nil
}

func (c *decoder) state(doc *stateImage) (s *State, err error) {
	s = &State{Tracee: &Tracee{NSPid: doc.NSPid, Name: string(doc.Name), syscallAt: doc.Site}, layout: doc.Layout, auxv: doc.Auxiliary,
		umask: doc.Umask & 0o777, personality: doc.Personality & 0xffffffff, stopped: doc.Stopped}
	s.brk, s.subreaper, s.undumpable, s.membarriers = doc.Break, doc.Subreaper, doc.Undumpable, doc.Barriers&allMembarriers
	if len(doc.Name) > maxName || len(doc.Auxiliary) > maxAuxiliary || len(doc.Auxiliary)%16 != 0 || doc.Site >= userEnd {
		return nil, damaged("process %d", doc.NSPid)
	}
	for _, part := range []func(*State) error{doc.decodeVMAs, doc.decodeLimits, doc.decodeSignals, doc.decodeTimers} {
		if err := part(s); err != nil {
			return nil, err
		}
	}
	if len(doc.Threads) == 0 || len(doc.Threads) > maxThreads || doc.Threads[0].NSPid != doc.NSPid {
		return nil, damaged("process %d, with %d threads", doc.NSPid, len(doc.Threads))
	}
	for i := range doc.Threads {
		t, err := doc.Threads[i].decode()
		if err != nil {
			return nil, err
		}
		if t.nspid < 2 || t.nspid > maxNumber || c.taken[t.nspid] {
			return nil, damaged("a thread that has the number %d", t.nspid)
		}
		c.taken[t.nspid] = true
		s.threads = append(s.threads, t)
	}
	return s, nil
}

func (doc *stateImage) decodeVMAs(s *State) (err error) {
	if len(doc.Areas) > maxVMAs {
		return damaged("%d mappings", len(doc.Areas))
	}
	last := uint64(0)
	for _, a := range doc.Areas {
		area := VMA{Start: a.Start, End: a.End, Read: a.Protection&unix.PROT_READ != 0, Write: a.Protection&unix.PROT_WRITE != 0,
			Exec: a.Protection&unix.PROT_EXEC != 0, Offset: a.Offset, Inode: a.Inode, Name: string(a.Name), flags: a.Flags}
		if a.Start < last || a.End <= a.Start || a.End > userEnd || (a.Start|a.End|a.Offset)%pageSize != 0 ||
			!plainName(area.Name) || len(a.Flags) > maxName || area.file() && !strings.HasPrefix(area.Name, "/") && !kernelVMA(area) {
			return damaged("a mapping %x-%x of %.80q", a.Start, a.End, a.Name)
		}
		last = a.End
		s.vmas = append(s.vmas, area)
	}
	if s.own, err = decodeRuns(doc.Own, pageSize, userEnd, userEnd/pageSize); err != nil {
		return err
	}
	if len(minus(s.own, runsOf(s.vmas))) > 0 {
		return damaged("pages of process %d that are in none of its mappings", doc.NSPid)
	}
	return nil
}

func (doc *stateImage) decodeLimits(s *State) error {
	if len(doc.Limits) != len(s.limits) {
		return damaged("%d resource limits", len(doc.Limits))
	}
	for i, l := range doc.Limits {
		s.limits[i] = unix.Rlimit{Cur: l[0], Max: l[1]}
	}
	return nil
}

func (doc *stateImage) decodeSignals(s *State) (err error) {
	s.actions = map[int][32]byte{}
	for signal, action := range doc.Actions {
		if signal < 1 || signal > 64 || len(action) != 32 {
			return damaged("an action for signal %d", signal)
		}
		s.actions[signal] = [32]byte(action)
	}
	s.queued, err = decodePending(doc.Pending)
	return err
}

func decodePending(docs [][]byte) (list []ptrace.SignalInfo, err error) {
	if len(docs) > maxPending {
		return nil, damaged("%d pending signals", len(docs))
	}
	for _, doc := range docs {
		var info ptrace.SignalInfo
		if copy(info[:], doc) != len(info) || len(doc) != len(info) || info.Number() < 1 || info.Number() > 64 {
			return nil, damaged("a pending signal")
		}
		list = append(list, info)
	}
	return list, nil
}

func (doc *stateImage) decodeTimers(s *State) error {
	for i, timer := range doc.Intervals {
		if len(timer) != len(s.timers[i]) {
			return damaged("an interval timer")
		}
		s.timers[i] = [32]byte(timer)
	}
	if len(doc.Timers) > maxTimers {
		return damaged("%d timers", len(doc.Timers))
	}
	seen := map[int]bool{}
	for _, t := range doc.Timers {
		if t.ID < 0 || t.ID >= maxTimers || seen[t.ID] || t.Clock < 0 || len(t.Left) != 32 {
			return damaged("a timer with the number %d", t.ID)
		}
		seen[t.ID] = true
		s.posixTimers = append(s.posixTimers, posixTimer{t.ID, t.Clock, t.Notify, t.Signal, t.Value, t.Thread, [32]byte(t.Left)})
	}
	return nil
}

func (doc *threadImage) decode() (t *thread, err error) {
	t = &thread{nspid: doc.NSPid, name: string(doc.Name), regs: doc.Registers, extended: doc.Extended, mask: doc.Mask, rseq: doc.RSeq,
		robust: doc.Robust, clearTID: doc.ClearTID}
	t.sched = scheduling{nice: doc.Nice, policy: doc.Policy, io: doc.IO, set: len(doc.Affinity)}
	ordinary := slices.Contains([]int{ordinaryPolicy, batchPolicy, idlePolicy}, doc.Policy&^resetOnFork)
	if len(doc.AltStack) != len(t.altStack) || len(doc.Affinity) > len(t.sched.affinity) || len(doc.Extended) > maxExtended ||
		!plainName(t.name) || !ordinary {
		return nil, damaged("a thread with the number %d", doc.NSPid)
	}
	copy(t.altStack[:], doc.AltStack)
	copy(t.sched.affinity[:], doc.Affinity)
	t.queued, err = decodePending(doc.Pending)
	return t, err
}
