package image

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"time"

	"aether/internal/host/layerfs"
)

// unpack writes the entries of one layer into dir, which is empty. Reading ends
// with the archive; what follows it is left in r.
func unpack(ctx context.Context, r io.Reader, dir string, left *budget) error {
	tree, err := layerfs.Open(dir)
	if err != nil {
		return err
	}
	u := &unpacker{ctx: ctx, tree: tree, left: left, opaque: map[string]bool{},
		dirs: map[string]layerfs.Meta{".": {Mode: fs.ModeDir | 0o755, ModTime: time.Unix(0, 0)}}}
	return errors.Join(u.run(tar.NewReader(r)), tree.Close())
}

type unpacker struct {
	ctx  context.Context // of the one call that it is made for
	tree *layerfs.Tree
	left *budget

	// Known in full only at the end of the archive, and applied then.
	dirs      map[string]layerfs.Meta
	whiteouts []string
	opaque    map[string]bool
	names     int
	paid      int64
}

func (u *unpacker) run(archive *tar.Reader) error {
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return u.finish()
		}
		if err != nil {
			return unreadable(err)
		}
		if err := u.ctx.Err(); err != nil {
			return err
		}
		if err := u.entry(header, archive); err != nil {
			return err
		}
	}
}

// unreadable is an error of the stream below the archive reader, or of the
// archive's form.
func unreadable(err error) error { return &streamError{err} }

type streamError struct{ err error }

func (e *streamError) Error() string { return "the archive cannot be read: " + e.err.Error() }
func (e *streamError) Unwrap() error { return e.err }

func (u *unpacker) entry(header *tar.Header, content io.Reader) error {
	if err := u.charge(); err != nil {
		return err
	}
	name, err := entryName(header.Name)
	if err != nil {
		return err
	}
	kind, name, err := classify(name)
	if err != nil {
		return err
	}
	switch kind {
	case ordinary:
		return u.ordinary(name, header, content)
	case whiteout:
		u.whiteouts = append(u.whiteouts, name)
		return u.remember(name)
	case opaque:
		u.opaque[name] = true
		return u.remember(name)
	}
	return nil
}

// charge pays for this entry and for the parents that the last one implied.
func (u *unpacker) charge() error {
	implied := u.tree.Implied() - u.paid
	u.paid += implied
	return u.left.takeEntries(1 + implied)
}

func (u *unpacker) remember(name string) error {
	if u.names += len(name); u.names > maxNames {
		return invalid("a layer has over %d bytes of names and attributes of directories", maxNames)
	}
	return nil
}

// rememberDir keeps what a directory will be, with its attributes, until the end. The
// last entry of a name counts.
func (u *unpacker) rememberDir(name string, meta layerfs.Meta) error {
	u.names += meta.Size() - u.dirs[name].Size()
	u.dirs[name] = meta
	return u.remember(name)
}

func (u *unpacker) ordinary(name string, header *tar.Header, content io.Reader) error {
	meta, err := metaOf(header)
	if err != nil {
		return err
	}
	// What is not content takes room on the disk too.
	if err := u.left.takeBytes(int64(len(name) + len(header.Linkname) + meta.Size())); err != nil {
		return err
	}
	if name == "." && header.Typeflag != tar.TypeDir {
		return invalid("the layer's root is not a directory")
	}
	switch header.Typeflag {
	case tar.TypeDir:
		if err := u.rememberDir(name, meta); err != nil {
			return err
		}
		return u.tree.Mkdir(name)
	case tar.TypeReg, tar.TypeGNUSparse:
		err = u.tree.File(name, &budgetReader{u.ctx, content, u.left})
	case tar.TypeSymlink:
		err = u.symlink(header.Linkname, name)
	case tar.TypeLink:
		return u.link(header.Linkname, name)
	case tar.TypeFifo:
		err = u.tree.Fifo(name)
	case tar.TypeChar, tar.TypeBlock:
		return nil // of no use in a sandbox, and armed on the host
	default:
		return invalid("the entry %.200q is of the unknown kind %q", name, header.Typeflag)
	}
	if err != nil {
		return err
	}
	return u.tree.Set(name, meta)
}

// budgetReader takes what it reads from the budget. Archives may declare holes,
// so that neither their own size nor a header says what a file becomes.
type budgetReader struct {
	ctx  context.Context // since a hole is given without anything being read
	r    io.Reader
	left *budget
}

func (b *budgetReader) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.r.Read(p)
	if over := b.left.takeBytes(int64(n)); over != nil {
		return 0, over
	}
	if err != nil && err != io.EOF {
		err = unreadable(err)
	}
	return n, err
}

func (u *unpacker) symlink(target, name string) error {
	if target == "" || len(target) >= maxPath {
		return invalid("the link %.200q has an empty target or one over %d bytes", name, maxPath-1)
	}
	return u.tree.Symlink(target, name)
}

// link makes a hard link. Its metadata is that of the entry it names.
func (u *unpacker) link(target, name string) error {
	target, err := entryName(target)
	if err != nil {
		return err
	}
	if kind, _, err := classify(target); err != nil || kind != ordinary || target == "." {
		return invalid("the entry %.200q is a link to %.200q, which is no file", name, target)
	}
	return u.tree.Link(target, name)
}

// finish hides what the layer hides, then sets directories from the deepest up.
func (u *unpacker) finish() error {
	for name := range u.opaque {
		if err := u.tree.Opaque(name); err != nil {
			return err
		}
	}
	for _, name := range u.whiteouts {
		if u.opaque[path.Dir(name)] {
			continue // nothing below is visible anyway
		}
		if err := u.tree.Whiteout(name); err != nil {
			return err
		}
	}
	names := make([]string, 0, len(u.dirs))
	for name := range u.dirs {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	for _, name := range names {
		if err := u.tree.Set(name, u.dirs[name]); err != nil {
			return err
		}
	}
	return nil
}
