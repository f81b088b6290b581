package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"aether/internal/host/upperdir"
	"aether/sandbox"
)

const (
	// leastHole is the smallest hole of a file that is kept as one.
	leastHole = 64 << 10
	// Contents up to smallContent are held in memory until it is known whether
	// they are new, maxHeld of them together. Larger ones are copied to disk.
	smallContent = 64 << 10
	maxHeld      = 64 << 20
)

// Draft is what a sandbox wrote, copied while nothing runs there, on its way to
// be a snapshot.
type Draft struct {
	ctx    context.Context
	store  *Store
	work   *workplace
	ids    func(uid, gid uint32) (uint32, uint32)
	list   []entry
	copies []int // for each, its number among the contents, or -1
	same   map[upperdir.ID]int

	contents []content
	held     int64
	attached map[string]int // their numbers among the contents
	basis    *Basis
	composed map[string]composition // by digest
	parts    int                    // of all of them
}

// content is what a file holds: in memory, or in the workplace by its number.
type content struct {
	data   []byte
	digest string // once it is known
	// composed: it is kept as parts of others.
	composed bool
}

// Take copies the upper directory of a sandbox in which nothing runs. ids turns
// owners into those that the sandbox knows. Commit or Discard must follow.
func (s *Store) Take(ctx context.Context, dir *os.File, ids func(uid, gid uint32) (uint32, uint32)) (*Draft, error) {
	work, err := s.newWork()
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	d := &Draft{ctx: ctx, store: s, work: work, ids: ids, same: map[upperdir.ID]int{}}
	if err := upperdir.Walk(ctx, dir, taking{d}); err != nil {
		return nil, errors.Join(fmt.Errorf("snapshot: %w", err), d.Discard())
	}
	return d, nil
}

// Discard gives the room of the copies back.
func (d *Draft) Discard() error { return d.work.remove() }

// taking is a Draft while the upper directory is walked.
type taking struct{ *Draft }

// Enter implements upperdir.Visitor.
func (d taking) Enter(e *upperdir.Entry) error {
	if err := checkPath(e); err != nil {
		return err
	}
	file, err := e.Open()
	if err != nil {
		return err
	}
	defer file.Close()
	out := d.entry(e, kindDir)
	out.Opaque = e.Opaque
	if out.Attrs, err = attrsOf(file); err != nil {
		return err
	}
	d.add(out, -1)
	return nil
}

// Leave implements upperdir.Visitor.
func (taking) Leave(*upperdir.Entry) error { return nil }

// Visit implements upperdir.Visitor.
func (d taking) Visit(e *upperdir.Entry) error {
	if err := checkPath(e); err != nil {
		return err
	}
	if e.Kind == upperdir.Whiteout { // of which all may be one file
		d.add(entry{Path: text(e.Path), Kind: kindWhiteout}, -1)
		return nil
	}
	if first, ok := d.same[e.ID]; ok {
		return d.again(e, first)
	}
	if e.Links > 1 {
		d.same[e.ID] = len(d.list)
	}
	switch e.Kind {
	case upperdir.File:
		return d.file(e)
	case upperdir.Symlink:
		out := d.entry(e, kindSymlink)
		target, err := e.Target()
		out.Target = text(target)
		d.add(out, -1)
		return err
	case upperdir.Fifo:
		d.add(d.entry(e, kindFifo), -1)
	case upperdir.Socket:
		d.add(d.entry(e, kindSocket), -1)
	default:
		return fmt.Errorf("snapshot: %.200q is a device, which nobody in a sandbox can make", e.Path)
	}
	return nil
}

func checkPath(e *upperdir.Entry) error {
	if len(e.Path) < maxPath {
		return nil
	}
	return &sandbox.Error{Class: sandbox.Exhausted, Op: "snapshot: take", Remedy: "remove them first",
		Reason: fmt.Sprintf("the sandbox has files with paths over %d bytes", maxPath-1)}
}

func (d *Draft) add(e entry, copied int) {
	d.list, d.copies = append(d.list, e), append(d.copies, copied)
}

// again is one more name of a file that was taken already.
func (d *Draft) again(e *upperdir.Entry, first int) error {
	d.list[first].Same = int64(first) + 1
	out := d.list[first]
	out.Path = text(e.Path)
	d.add(out, d.copies[first])
	return nil
}

func (d *Draft) entry(e *upperdir.Entry, kind string) entry {
	uid, gid := d.ids(e.UID, e.GID)
	return entry{Path: text(e.Path), Kind: kind, Mode: e.Perm & 0o1777, UID: uid, GID: gid,
		Seconds: e.Modified.Unix(), Nanos: int64(e.Modified.Nanosecond())}
}

func (d *Draft) file(e *upperdir.Entry) error {
	from, err := e.Open()
	if err != nil {
		return err
	}
	defer from.Close()
	out := d.entry(e, kindFile)
	out.Size = e.Size
	if out.Attrs, err = attrsOf(from); err != nil {
		return err
	}
	extents, err := upperdir.Extents(from, e.Size, leastHole)
	if err != nil {
		return err
	}
	if len(extents) == 0 {
		d.add(out, -1)
		return nil
	}
	if len(extents) > 1 || extents[0].Length != e.Size {
		out.Extents = pairs(extents)
	}
	d.add(out, len(d.contents))
	return d.content(from, extents)
}

func pairs(list []upperdir.Extent) (out []extent) {
	for _, x := range list {
		out = append(out, extent{x.Offset, x.Length})
	}
	return out
}

// content is quick: the sandbox stands still. What the content is called is found
// out later.
func (d *Draft) content(from *os.File, extents []upperdir.Extent) error {
	size := int64(0)
	for _, x := range extents {
		size += x.Length
	}
	if size > smallContent || d.held+size > maxHeld {
		return d.copy(from, extents)
	}
	d.held += size
	data := make([]byte, 0, size)
	for _, x := range extents {
		n := len(data)
		data = data[:n+int(x.Length)]
		if _, err := from.ReadAt(data[n:], x.Offset); err == io.EOF {
			return upperdir.ErrChanged
		} else if err != nil {
			return err
		}
	}
	d.contents = append(d.contents, content{data: data})
	return nil
}

func (d *Draft) copy(from *os.File, extents []upperdir.Extent) error {
	to, err := os.OpenFile(d.copyPath(len(d.contents)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	d.contents = append(d.contents, content{})
	return errors.Join(upperdir.Pour(d.ctx, to, from, extents), to.Close())
}

func (d *Draft) copyPath(number int) string {
	return filepath.Join(d.work.dir, strconv.Itoa(number))
}

// attrsOf bounds what a sandbox can make the manifest hold.
func attrsOf(file *os.File) (list []attr, err error) {
	found, err := upperdir.Attrs(file)
	if err != nil {
		return nil, err
	}
	size := 0
	for _, a := range found {
		list = append(list, attr{text(a.Name), text(a.Value)})
		if size += len(a.Name) + len(a.Value); size > maxAttrs {
			return nil, &sandbox.Error{Class: sandbox.Exhausted, Op: "snapshot: take",
				Reason: fmt.Sprintf("%.200q has over %d bytes of attributes", file.Name(), maxAttrs), Remedy: "remove some first"}
		}
	}
	return list, nil
}
