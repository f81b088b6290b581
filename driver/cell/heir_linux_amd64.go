package cell

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"aether/internal/host/cgroup"
	"aether/internal/host/checkpoint"
	"aether/internal/host/confine"
	"aether/internal/host/inroot"
	"aether/internal/host/pty"
	"aether/sandbox"
)

// heir is one process of a fork's child, while its descriptors are made: the
// same numbers for the same kinds of things in the same state.
type heir struct {
	*estate
	twin *confine.Twin
}

// last says whether no other process is given anything after it.
func (h *heir) last() bool {
	roots := func(t *confine.Twin) bool { return t.Parent == nil }
	i := slices.Index(h.twins, h.twin)
	return !slices.ContainsFunc(h.twins[i+1:], roots)
}

// rebirth makes everything that the process is given.
func (h *heir) rebirth() (r confine.Rebirth, err error) {
	if err := h.check(); err != nil {
		return r, err
	}
	place := h.twin.Place
	r = confine.Rebirth{Dir: place.Dir, Terminal: -1, Group: cgroup.Attach{Into: -1}}
	r.UID, r.GID, r.Groups = h.identity(place)
	if r.Program, err = h.openPath(place.Program, os.O_RDONLY); err != nil {
		r.Program = nil // it was removed; then there is nothing to show
	} else {
		h.theirs = append(h.theirs, r.Program)
	}
	if r.Mappings, err = h.mappings(); err != nil {
		return r, err
	}
	for _, d := range h.twin.Descriptors {
		f, err := h.make(d)
		if err != nil {
			return r, err
		}
		r.Descriptors = append(r.Descriptors, confine.Descriptor{Number: d.Number, File: f, CloseOnExec: d.CloseOnExec(), Locks: d.ProcessLocks()})
		if d.Kind == checkpoint.Poll {
			r.Polls = append(r.Polls, pollOf(d))
		}
		if number, ok := terminalNumber(d.Target); ok && terminalDevice(number) == place.Terminal {
			r.Terminal = d.Number
			if s := h.terminal(number); s != nil {
				r.Foreground = h.twin.Inside(s.Terminal.Foreground)
			}
		}
	}
	return r, h.family(&r)
}

// check refuses what could not be made.
func (h *heir) check() error {
	place := h.twin.Place
	if strings.HasSuffix(place.Dir, " (deleted)") {
		return h.refuse("is in a directory that was removed")
	}
	if place.Root != "/" {
		return h.refuse("has changed its root to " + place.Root)
	}
	if parent := h.twin.Parent; parent != nil && !sameUser(parent.Place, place) {
		return h.refuse("is another user than the process that started it")
	}
	for _, d := range h.twin.Descriptors {
		if err := h.checkDescriptor(d); err != nil {
			return err
		}
	}
	return nil
}

func sameUser(a, b checkpoint.Place) bool {
	return a.UID == b.UID && a.GID == b.GID && slices.Equal(a.Groups, b.Groups)
}

func (h *heir) checkDescriptor(d checkpoint.Descriptor) error {
	switch {
	case isTerminal(d):
		number, err := h.terminalOf(d)
		if err == nil && h.terminal(number) == nil {
			err = h.refuse(fmt.Sprintf("has descriptor %d open on %s, whose other end is in the cell", d.Number, d.Target))
		}
		return err
	case d.Kind == checkpoint.Other:
		return h.refuse(fmt.Sprintf("has descriptor %d open on %s", d.Number, d.Target))
	}
	return nil
}

// terminal finds a terminal of the source by its number.
func (e *estate) terminal(number int) *stream {
	for _, s := range e.streams {
		if s.Terminal != nil && s.Terminal.Number == number {
			return s
		}
	}
	return nil
}

// family makes what the process's children are given. They are who it is.
func (h *heir) family(r *confine.Rebirth) error {
	for _, child := range h.twin.Children {
		below := &heir{h.estate, child}
		given, err := below.rebirth()
		if err != nil {
			return err
		}
		r.Children = append(r.Children, given)
	}
	return nil
}

// mappings opens the files that the process has in its memory, shared.
func (h *heir) mappings() (list []confine.Mapping, err error) {
	for _, m := range h.twin.Mappings {
		flags := os.O_RDONLY
		if m.Writable {
			flags = os.O_RDWR
		}
		var f *os.File
		if m.Content != nil {
			f, err = checkpoint.Reopen(h.contents[m.Content], flags)
		} else {
			f, err = h.openPath(m.Path, flags)
		}
		if err != nil {
			return nil, h.refuse(fmt.Sprintf("shares memory of %s at %x, which cannot be opened again: %v", m.Path, m.Start, err))
		}
		h.theirs = append(h.theirs, f)
		list = append(list, confine.Mapping{File: f, Start: m.Start, Size: m.Size, Offset: m.Offset, Protection: m.Protection, Advice: m.Advice})
	}
	return list, nil
}

func (h *heir) refuse(what string) error { return h.twin.Refuse(what) }

func pollOf(d checkpoint.Descriptor) confine.Poll {
	p := confine.Poll{Number: d.Number}
	for _, w := range d.Watches {
		p.Watches = append(p.Watches, confine.Watch{Number: int(w[0]), Events: uint32(w[1]), Data: uint64(w[2])})
	}
	return p
}

// make makes the file of a descriptor, once for all that stand for it.
func (h *heir) make(d checkpoint.Descriptor) (*os.File, error) {
	if f := h.made[d.Object]; f != nil {
		return f, nil
	}
	f, err := h.makeNew(d)
	if err != nil {
		return nil, err
	}
	h.made[d.Object] = f
	h.theirs = append(h.theirs, f)
	if err := d.TakeLocks(f); err != nil {
		return nil, h.refuse(fmt.Sprintf("holds a lock on %s by descriptor %d that cannot be taken again: %v", d.Target, d.Number, err))
	}
	return f, d.SetNonblock(f)
}

func (h *heir) makeNew(d checkpoint.Descriptor) (*os.File, error) {
	if isTerminal(d) {
		return h.makeTerminal(d)
	}
	switch d.Kind {
	case checkpoint.Pipe:
		return h.makePipe(d)
	case checkpoint.File:
		return h.makeFile(d)
	case checkpoint.Deleted, checkpoint.Memory:
		f, err := checkpoint.Reopen(h.contents[d.Content], d.Flags)
		if err != nil {
			return nil, err
		}
		return f, seek(f, d.Position)
	case checkpoint.Virtual:
		f := h.opened[d.Object]
		return f, seek(f, d.Position)
	case checkpoint.Socket:
		return h.sockets[d.Inode], nil
	}
	return d.Recreate()
}

func seek(f *os.File, position int64) error {
	if position == 0 {
		return nil
	}
	_, err := f.Seek(position, 0)
	return err
}

// makeFile opens the child's own file of that path.
func (h *heir) makeFile(d checkpoint.Descriptor) (*os.File, error) {
	f, err := h.openPath(d.Target, d.Flags)
	if err != nil {
		return nil, h.refuse(fmt.Sprintf("has descriptor %d open on %s, which cannot be opened again: %v", d.Number, d.Target, err))
	}
	if err := seek(f, d.Position); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// openPath opens a path of the child. What could do more than be opened is
// refused: the path is the guest's.
func (h *heir) openPath(path string, flags int) (*os.File, error) {
	root, err := h.openRoot()
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(path)
	if err != nil {
		return nil, err
	}
	device := info.Mode&os.ModeDevice != 0 && flags&pathOnly == 0
	if device || info.Mode&os.ModeNamedPipe != 0 || strings.HasSuffix(path, "/ptmx") {
		return nil, errors.ErrUnsupported
	}
	const kept = syscall.O_ACCMODE | syscall.O_APPEND | syscall.O_DIRECTORY | syscall.O_SYNC | syscall.O_DSYNC | syscall.O_NOATIME | pathOnly
	f, err := root.Open(path, flags&kept, 0)
	if err != nil {
		return nil, err
	}
	if err := checkpoint.CheckPlain(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

const pathOnly = 0x200000 // O_PATH

// openRoot opens the child's root, once.
func (e *estate) openRoot() (*inroot.Root, error) {
	if e.root != nil {
		return e.root, nil
	}
	dir, err := e.child.cell.Root()
	if err != nil {
		return nil, err
	}
	e.theirs = append(e.theirs, dir)
	e.root = inroot.New(dir)
	return e.root, nil
}

// makePipe makes a pipe for each of the source's. If this program reads or
// writes the other end there, it does so here too.
func (h *heir) makePipe(d checkpoint.Descriptor) (*os.File, error) {
	ends, ok := h.pipes[d.Inode]
	if !ok {
		var err error
		if ends, err = h.newPipe(d.Inode); err != nil {
			return nil, err
		}
		h.pipes[d.Inode] = ends
	}
	if len(d.Unread) > 0 && !h.filled[d.Inode] {
		h.filled[d.Inode] = true
		if err := h.refill(ends[1], d); err != nil {
			return nil, err
		}
	}
	end := ends[1]
	if d.Flags&syscall.O_ACCMODE == syscall.O_RDONLY {
		end = ends[0]
	}
	if d.Flags&syscall.O_APPEND != 0 || !h.free(end) {
		// Each open file has its own way of waiting.
		var err error
		if end, err = checkpoint.Reopen(end, d.Flags); err != nil {
			return nil, err
		}
	}
	return end, checkpoint.SetCapacity(end, d.Capacity)
}

// free says that nobody has an end of a pipe yet, and takes it.
func (h *heir) free(end *os.File) bool {
	for _, own := range h.ours {
		if own == end {
			return false
		}
	}
	taken := h.taken[end]
	h.taken[end] = true
	return !taken
}

// newPipe makes a pipe like one of the source's. An end that is this program's, if
// one is, can be waited for with others; what the processes get beside the other end
// are copies.
func (h *heir) newPipe(inode uint64) (ends [2]*os.File, err error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return ends, os.NewSyscallError("pipe2", err)
	}
	own := -1
	i := slices.IndexFunc(h.streams, func(s *stream) bool { return s.Pipe != nil && s.Pipe.Inode == inode })
	if i >= 0 {
		if own = 0; h.streams[i].Pipe.Writes {
			own = 1
		}
		err = os.NewSyscallError("fcntl", syscall.SetNonblock(fds[own], true))
	}
	for n, name := range []string{"|0", "|1"} {
		ends[n] = os.NewFile(uintptr(fds[n]), name)
		h.theirs = append(h.theirs, ends[n])
	}
	if i >= 0 {
		h.ours[h.streams[i]] = ends[own]
	}
	return ends, err
}

// refill puts what had not been read into the pipe. It does not wait for room,
// whatever the process does that has this end already.
func (h *heir) refill(end *os.File, d checkpoint.Descriptor) error {
	to, err := checkpoint.Reopen(end, syscall.O_WRONLY|syscall.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := checkpoint.SetCapacity(to, d.Capacity); err != nil {
		return err
	}
	n, err := checkpoint.Fill(to, d.Unread)
	if err == nil && n < len(d.Unread) {
		err = h.refuse(fmt.Sprintf("has a pipe that holds more than fits a new one (%d of %d bytes)", n, len(d.Unread)))
	}
	return err
}

// controlling is a process's own terminal, whichever that is.
const controlling = "/dev/tty"

func isTerminal(d checkpoint.Descriptor) bool {
	_, ok := terminalNumber(d.Target)
	return ok || d.Target == controlling
}

// makeTerminal opens a terminal of the child. It must never be by the name of
// the controlling one, which here would be this program's.
func (h *heir) makeTerminal(d checkpoint.Descriptor) (*os.File, error) {
	number, err := h.terminalOf(d)
	if err != nil {
		return nil, err
	}
	if h.terminals[number] == nil {
		slave, err := h.terminalLike(h.terminal(number))
		if err != nil {
			return nil, err
		}
		h.theirs = append(h.theirs, slave)
		h.terminals[number] = slave
	}
	return checkpoint.Reopen(h.terminals[number], d.Flags)
}

// terminalOf is the number of the terminal that a descriptor stands for.
func (h *heir) terminalOf(d checkpoint.Descriptor) (int, error) {
	if number, ok := terminalNumber(d.Target); ok {
		return number, nil
	}
	number := h.twin.Place.Terminal & 0xff // for there are fewer terminals
	if terminalDevice(number) != h.twin.Place.Terminal {
		return 0, h.refuse(fmt.Sprintf("has descriptor %d open on a terminal that it no longer has", d.Number))
	}
	return number, nil
}

// terminalLike makes a terminal with the number and settings of the source's.
func (h *heir) terminalLike(source *stream) (*os.File, error) {
	const most = 256
	number := source.Terminal.Number
	var aside []*os.File
	defer func() {
		for _, f := range aside {
			f.Close()
		}
	}()
	for range most {
		master, slave, err := backend{h.child}.OpenPTY()
		if err != nil {
			return nil, err
		}
		n, err := pty.Number(master)
		if err == nil && n == number {
			h.ours[source] = master
			uid, gid := int(h.twin.Place.UID), int(h.twin.Place.GID)
			return slave, errors.Join(source.Terminal.Settings.Apply(master), slave.Chown(uid, gid))
		}
		aside = append(aside, master, slave)
		if err != nil {
			return nil, err
		}
	}
	return nil, &sandbox.Error{Class: sandbox.Exhausted, Reason: fmt.Sprintf("terminal %d is taken", number)}
}

// terminalNumber reads /dev/pts/3.
func terminalNumber(target string) (n int, ok bool) {
	rest, found := strings.CutPrefix(target, "/dev/pts/")
	if !found {
		return 0, false
	}
	_, err := fmt.Sscanf(rest, "%d", &n)
	return n, err == nil && fmt.Sprint(n) == rest
}

// terminalDevice is the number of a terminal's device, as the kernel writes it.
func terminalDevice(number int) int {
	const major = 136 // UNIX98_PTY_SLAVE_MAJOR
	return (major+number>>8)<<8 | number&0xff
}
