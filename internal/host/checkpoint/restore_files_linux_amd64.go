package checkpoint

import (
	"errors"
	"os"
	"slices"
	"strings"

	"aether/internal/host/cgroup"
	"aether/internal/host/confine"
	"aether/internal/host/inroot"

	"golang.org/x/sys/unix"
)

// FileRestorer makes the files of a checkpoint's processes anew in another cell: the
// same numbers for the same kinds of things in the same state. What processes held
// together they hold together again; nothing is shared with the source.
type FileRestorer struct {
	checkpoint *Checkpoint
	cell       *confine.Cell
	group      cgroup.Way // where who makes things in the cell is accounted
	streams    []*Stream

	// Outside are the new ends of streams that are outside of the cell. They stay the
	// caller's.
	Outside map[*Stream]*os.File

	given []*os.File   // what processes are given, to be closed here
	root  *inroot.Root // the cell's, if it has been opened

	open      map[int]*os.File // by the descriptors' object
	pipes     map[uint64]*pipe
	terminals map[int]*os.File
	made      madeObjects
}

// NewFileRestorer makes what processes of the cell itself must make, for all of
// them. ready is called before, when something is.
func NewFileRestorer(c *Checkpoint, cell *confine.Cell, group cgroup.Way, streams []*Stream, ready func() error) (*FileRestorer, error) {
	r := newFileRestorer(c, cell, group, streams)
	if err := r.makeObjects(ready); err != nil {
		r.CloseGiven()
		return nil, err
	}
	return r, nil
}

func newFileRestorer(c *Checkpoint, cell *confine.Cell, group cgroup.Way, streams []*Stream) *FileRestorer {
	return &FileRestorer{checkpoint: c, cell: cell, group: group, streams: streams, Outside: map[*Stream]*os.File{},
		open: map[int]*os.File{}, pipes: map[uint64]*pipe{}, terminals: map[int]*os.File{}}
}

// CheckRestorable refuses a checkpoint that could not be restored in a cell like
// this one.
func CheckRestorable(c *Checkpoint, cell *confine.Cell, streams []*Stream) error {
	r := newFileRestorer(c, cell, cgroup.Way{}, streams)
	for _, p := range c.Processes {
		if err := r.check(p); err != nil {
			return err
		}
	}
	return r.checkObjects()
}

// CloseGiven closes what processes were given, once they have it.
func (r *FileRestorer) CloseGiven() {
	closed := map[*os.File]bool{}
	for _, f := range r.Outside {
		closed[f] = true // not theirs
	}
	for _, f := range r.given {
		if !closed[f] {
			closed[f] = true
			f.Close()
		}
	}
	r.given = nil
}

// Spec makes everything that a process, and those that it had started, are given.
func (r *FileRestorer) Spec(p *Process) (s *RestoreSpec, err error) {
	if err := r.check(p); err != nil {
		return nil, err
	}
	s = &RestoreSpec{Process: p, Terminal: -1, Who: p.Place.credentials()}
	if program, err := r.openPath(p.Place.Program, os.O_RDONLY); err == nil { // else it was removed, and there is nothing to show
		s.Program = r.give(program)
	}
	if s.MappingFiles, err = r.mappingFiles(p); err != nil {
		return nil, err
	}
	if s.LayerFiles, err = r.layerFiles(p); err != nil {
		return nil, err
	}
	for _, d := range p.Descriptors {
		f, err := r.file(p, d)
		if err != nil {
			return nil, err
		}
		s.Files = append(s.Files, f)
		if number, ok := terminalNumber(d.Target); ok && terminalDevice(number) == p.Place.Terminal {
			s.Terminal = d.Number
			if stream := r.terminal(number); stream != nil {
				s.Foreground = p.nspidOf(stream.Terminal.Foreground)
			}
		}
	}
	for _, child := range p.Children {
		below, err := r.Spec(child)
		if err != nil {
			return nil, err
		}
		s.Children = append(s.Children, below)
	}
	return s, nil
}

func (r *FileRestorer) give(f *os.File) *os.File {
	r.given = append(r.given, f)
	return f
}

// check refuses a process of which something could not be made.
func (r *FileRestorer) check(p *Process) error {
	if strings.HasSuffix(p.Place.Dir, removedMark) {
		return p.refuse("is in a directory that was removed")
	}
	if p.Place.Root != "/" {
		return p.refuse("has changed its root to %s", p.Place.Root)
	}
	if p.Parent != nil && !sameUser(p.Parent.Place, p.Place) {
		return p.refuse("is another user than the process that started it")
	}
	for _, d := range p.Descriptors {
		if err := r.checkDescriptor(p, d); err != nil {
			return err
		}
	}
	return nil
}

func sameUser(a, b Place) bool {
	return a.UID == b.UID && a.GID == b.GID && slices.Equal(a.Groups, b.Groups)
}

func (r *FileRestorer) checkDescriptor(p *Process, d Descriptor) error {
	switch {
	case d.terminal():
		number, err := terminalOf(p, d)
		if err == nil && r.terminal(number) == nil {
			err = p.refuse("has descriptor %d open on %s, whose other end is in the cell", d.Number, d.Target)
		}
		return err
	case d.Kind == Other:
		return p.refuse("has descriptor %d open on %s", d.Number, d.Target)
	}
	return nil
}

// mappingFiles opens the files that a process has in its memory, shared.
func (r *FileRestorer) mappingFiles(p *Process) (list []*os.File, err error) {
	for _, m := range p.Mappings {
		flags := os.O_RDONLY
		if m.Writable {
			flags = os.O_RDWR
		}
		var f *os.File
		if m.Content != nil {
			f, err = reopen(r.made.contents[m.Content], flags)
		} else {
			f, err = r.openPath(m.Path, flags)
		}
		if err != nil {
			return nil, p.refuse("shares memory of %s at %x, which cannot be opened again: %v", m.Path, m.Start, err)
		}
		list = append(list, r.give(f))
	}
	return list, nil
}

// file makes the file of a descriptor, once for all that stand for it.
func (r *FileRestorer) file(p *Process, d Descriptor) (*os.File, error) {
	if f := r.open[d.Object]; f != nil {
		return f, nil
	}
	f, err := r.newFile(p, d)
	if err != nil {
		return nil, err
	}
	r.open[d.Object] = r.give(f)
	if err := d.takeLocks(f); err != nil {
		return nil, p.refuse("holds a lock on %s by descriptor %d that cannot be taken again: %v", d.Target, d.Number, err)
	}
	return f, d.setNonblock(f)
}

func (r *FileRestorer) newFile(p *Process, d Descriptor) (*os.File, error) {
	if d.terminal() {
		return r.newTerminal(p, d)
	}
	switch d.Kind {
	case Pipe:
		return r.newPipeEnd(p, d)
	case File:
		return r.newPlainFile(p, d)
	case Deleted, Memory:
		f, err := reopen(r.made.contents[d.Content], d.Flags)
		if err != nil {
			return nil, err
		}
		return f, seek(f, d.Position)
	case Virtual:
		f := r.made.opened[d.Object]
		return f, seek(f, d.Position)
	case Socket:
		return r.made.sockets[d.Inode], nil
	}
	return d.recreate()
}

func seek(f *os.File, position int64) error {
	if position == 0 {
		return nil
	}
	_, err := f.Seek(position, 0)
	return err
}

// newPlainFile opens the cell's own file of that path.
func (r *FileRestorer) newPlainFile(p *Process, d Descriptor) (*os.File, error) {
	f, err := r.openPath(d.Target, d.Flags)
	if err != nil {
		return nil, p.refuse("has descriptor %d open on %s, which cannot be opened again: %v", d.Number, d.Target, err)
	}
	if err := seek(f, d.Position); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// openPath opens a path of the cell. What could do more than be opened is refused:
// the path is the guest's.
func (r *FileRestorer) openPath(path string, flags int) (*os.File, error) {
	root, err := r.openRoot()
	if err != nil {
		return nil, err
	}
	return openPlain(root, path, flags)
}

// openRoot opens the cell's root, once.
func (r *FileRestorer) openRoot() (*inroot.Root, error) {
	if r.root != nil {
		return r.root, nil
	}
	dir, err := r.cell.Root()
	if err != nil {
		return nil, err
	}
	r.root = inroot.New(r.give(dir))
	return r.root, nil
}

func openPlain(root *inroot.Root, path string, flags int) (*os.File, error) {
	info, err := root.Stat(path)
	if err != nil {
		return nil, err
	}
	device := info.Mode&os.ModeDevice != 0 && flags&unix.O_PATH == 0
	if device || info.Mode&os.ModeNamedPipe != 0 || strings.HasSuffix(path, "/ptmx") {
		return nil, errors.ErrUnsupported
	}
	const kept = unix.O_ACCMODE | unix.O_APPEND | unix.O_DIRECTORY | unix.O_SYNC | unix.O_DSYNC | unix.O_NOATIME | unix.O_PATH
	f, err := root.Open(path, flags&kept, 0)
	if err != nil {
		return nil, err
	}
	if err := checkPlain(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// CopyUp makes files of the cell's lower layers its own that processes of the
// checkpoint share as memory: who maps a file of a layer below does not see what
// others write to the cell's own. inLayer says which paths those are.
func (c *Checkpoint) CopyUp(cell *confine.Cell, inLayer func(path string) bool) error {
	dir, err := cell.Root()
	if err != nil {
		return err
	}
	root := inroot.New(dir)
	defer root.Close()
	for _, p := range c.Processes {
		for _, m := range p.Mappings {
			if m.Content != nil || !inLayer(m.Path) {
				continue
			}
			f, err := openPlain(root, m.Path, os.O_RDWR)
			if err != nil {
				return err
			}
			f.Close()
		}
	}
	return nil
}
