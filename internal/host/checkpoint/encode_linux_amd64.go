package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"aether/internal/host/ptrace"
)

// RestoreProcess is all that an imprint knows of a process, but what is in its memory.
type Process struct {
	// Parent is the place of its parent among the processes, or -1.
	Parent int
	// Last is its number on the host.
	Was         int
	State       *State
	Place       Place // with ids of the cell
	Descriptors []Descriptor
	Mappings    []SharedMapping
}

// Add adds a process to the document. Stamps are of all files that it has in its
// memory. Errors: Conflict for what cannot be kept.
func (d *Image) Add(p Process, stamps map[string]Stamp) error {
	if err := errors.Join(p.State.checkNames(), d.stamp(p.State, stamps)); err != nil {
		return err
	}
	doc := processImage{Parent: p.Parent, Was: p.Was, State: p.State.encode(), Place: p.Place.encode()}
	for _, one := range p.Descriptors {
		doc.Descriptors = append(doc.Descriptors, descriptorImage{one, text(one.Target), one.Socket.encode(), d.contentIndex(one.Content)})
	}
	for _, m := range p.Mappings {
		doc.Mappings = append(doc.Mappings, mappingImage{m, text(m.Path), d.contentIndex(m.Content)})
	}
	d.Processes = append(d.Processes, doc)
	return nil
}

// checkNames refuses files that nobody could find again by their names.
func (s *State) checkNames() error {
	for _, a := range s.vmas {
		if a.file() && !kernelVMA(a) && strings.HasSuffix(a.Name, removedMark) {
			return s.refuse(false, "maps %s, which was removed", strings.TrimSuffix(a.Name, removedMark))
		}
	}
	return nil
}

// bufferArg is where a content is in the document, to which it is added if need be.
func (d *Image) contentIndex(c *Content) *int {
	if c == nil {
		return nil
	}
	at := slices.Index(d.contents, c)
	if at < 0 {
		at = len(d.contents)
		d.contents = append(d.contents, c)
		d.Contents = append(d.Contents, contentImage{c.Memory, text(c.Name), text(c.Dir), c.size, c.mode, c.seals, pairs(c.data)})
	}
	return &at
}

// WriteContent writes the content at a place of the document, without its holes.
func (d *Image) WriteContent(place int, to io.Writer) error {
	c := d.contents[place]
	for _, r := range c.data {
		if _, err := io.CopyN(to, io.NewSectionReader(c.file, int64(r.start), int64(r.size())), int64(r.size())); err != nil {
			return err
		}
	}
	return nil
}

func pairs(list []run) (out [][2]uint64) {
	for _, r := range list {
		out = append(out, [2]uint64{r.start, r.end})
	}
	return out
}

func (s *State) encode() stateImage {
	doc := stateImage{NSPid: s.NSPid, Name: text(s.Name), Site: s.syscallAt, Break: s.brk, Layout: s.layout, Auxiliary: s.auxv,
		Umask: s.umask, Personality: s.personality, Subreaper: s.subreaper, Barriers: s.membarriers, Undumpable: s.undumpable, Stopped: s.stopped,
		Actions: map[int][]byte{}, Pending: encodePending(s.queued), Own: pairs(s.own)}
	for _, l := range s.limits {
		doc.Limits = append(doc.Limits, [2]uint64{l.Cur, l.Max})
	}
	for signal, action := range s.actions {
		doc.Actions[signal] = action[:]
	}
	for i, timer := range s.timers {
		doc.Intervals[i] = timer[:]
	}
	for _, t := range s.posixTimers {
		doc.Timers = append(doc.Timers, timerImage{t.id, t.clock, t.notify, t.signal, t.value, t.thread, t.spec[:]})
	}
	for _, a := range s.vmas {
		if a.Name != "[vsyscall]" { // every process has it, and nobody can move it
			doc.Areas = append(doc.Areas, vmaImage{a.Start, a.End, uint8(protection(a)), a.Offset, a.Inode, text(a.Name), a.flags})
		}
	}
	for _, t := range s.threads {
		doc.Threads = append(doc.Threads, t.encode())
	}
	return doc
}

func (t *thread) encode() threadImage {
	return threadImage{NSPid: t.nspid, Name: text(t.name), Registers: t.regs, Extended: t.extended, Mask: t.mask, RSeq: t.rseq,
		Robust: t.robust, ClearTID: t.clearTID, AltStack: t.altStack[:], Pending: encodePending(t.queued),
		Nice: t.sched.nice, Policy: t.sched.policy, IO: t.sched.io, Affinity: t.sched.affinity[:t.sched.set]}
}

func encodePending(list []ptrace.SignalInfo) (out [][]byte) {
	for _, info := range list {
		out = append(out, info[:])
	}
	return out
}

func (p Place) encode() placeImage {
	return placeImage{text(p.Dir), text(p.Root), text(p.Program), p.UID, p.GID, p.Groups, p.Group, p.Session, p.Terminal}
}

func (s *SocketState) encode() *socketImage {
	if s == nil {
		return nil
	}
	doc := &socketImage{SocketState: *s, Local: s.local, Remote: s.remote, Backlog: s.backlog, Shut: s.shut, Mode: s.mode, Queue: s.queue}
	for _, o := range s.options {
		doc.Options = append(doc.Options, optionImage{o.level, o.name, o.value})
	}
	return doc
}

// WriteMemory writes the process's own pages, one after another, as a process
// that has taken them on has them: its twin.
func (s *State) WriteMemory(to io.Writer, pid int) error {
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return err
	}
	defer memory.Close()
	for _, r := range s.own {
		if _, err := io.CopyN(to, io.NewSectionReader(memory, int64(r.start), int64(r.size())), int64(r.size())); err != nil {
			return errors.Join(errShort, err)
		}
	}
	return nil
}
