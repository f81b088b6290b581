package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"aether/internal/host/layerfs"
)

// unpack makes a layer in the new directory to, of the snapshot in dir.
func unpack(ctx context.Context, to, dir string, rec Record) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	manifest := filepath.Join(to, manifestName)
	if err := place(ctx, manifest, filepath.Join(dir, manifestName)); err != nil {
		return err
	}
	digest, err := digestOf(ctx, manifest)
	if err != nil {
		return err
	}
	if digest != rec.Manifest {
		return broken(nil, "the manifest has the digest %s, not %s", digest, rec.Manifest)
	}
	list, err := newLayer(to).entries()
	if err != nil {
		return err
	}
	blobs := filepath.Join(to, blobsName)
	if err := placeBlobs(ctx, blobs, list, filepath.Join(dir, blobsName)); err != nil {
		return err
	}
	return plant(ctx, newLayer(to).Path, blobs, list)
}

// plant makes the tree of a layer.
func plant(ctx context.Context, dir, blobs string, list []entry) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	tree, err := layerfs.Open(dir)
	if err != nil {
		return err
	}
	p := &planter{ctx: ctx, tree: tree, blobs: blobs, first: map[int64]string{}}
	return errors.Join(p.all(list), tree.Close())
}

type planter struct {
	ctx   context.Context
	tree  *layerfs.Tree
	blobs string
	first map[int64]string // names of files that have several
}

// all makes directories before what is in them, and sets them after.
func (p *planter) all(list []entry) error {
	for i := range list {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		if err := p.one(&list[i]); err != nil {
			return err
		}
	}
	for i := len(list) - 1; i >= 0; i-- {
		if e := &list[i]; e.Kind == kindDir {
			if err := p.tree.Set(string(e.Path), meta(e)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *planter) one(e *entry) error {
	name := string(e.Path)
	if first, ok := p.first[e.Same]; ok {
		return p.tree.Link(first, name)
	}
	if e.Same > 0 {
		p.first[e.Same] = name
	}
	var err error
	switch e.Kind {
	case kindWhiteout:
		return p.tree.Whiteout(name)
	case kindDir:
		return p.directory(e, name)
	case kindFile:
		err = p.file(e, name)
	case kindSymlink:
		err = p.tree.Symlink(string(e.Target), name)
	case kindFifo:
		err = p.tree.Fifo(name)
	case kindSocket:
		err = p.tree.Socket(name)
	}
	if err != nil {
		return err
	}
	return p.tree.Set(name, meta(e))
}

func (p *planter) directory(e *entry, name string) error {
	if e.Opaque {
		return p.tree.Opaque(name)
	}
	return p.tree.Mkdir(name)
}

func meta(e *entry) layerfs.Meta {
	m := layerfs.Meta{UID: int(e.UID), GID: int(e.GID), Mode: fs.FileMode(e.Mode & 0o777), ModTime: time.Unix(e.Seconds, e.Nanos)}
	if e.Mode&0o1000 != 0 {
		m.Mode |= fs.ModeSticky
	}
	for _, a := range e.Attrs {
		if m.Xattrs == nil {
			m.Xattrs = map[string]string{}
		}
		m.Xattrs[string(a.Name)] = string(a.Value)
	}
	return m
}

// file writes a content and checks it on the way.
func (p *planter) file(e *entry, name string) error {
	if e.Blob == "" {
		return p.tree.Sparse(name, e.Size, nil, nil)
	}
	blob, err := openPlain(filepath.Join(p.blobs, e.Blob))
	if err != nil {
		return err
	}
	defer blob.Close()
	content := &checked{r: contextReader{p.ctx, blob}, hash: sha256.New()}
	err = p.tree.Sparse(name, e.Size, e.runs(), content)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return broken(err, "the content %s is too short", e.Blob)
	}
	if err != nil {
		return err
	}
	return content.verify(e.Blob)
}

// runs is which bytes of a file its content is.
func (e *entry) runs() (list []layerfs.Run) {
	if e.Extents == nil {
		return []layerfs.Run{{Length: e.Size}}
	}
	for _, x := range e.Extents {
		list = append(list, layerfs.Run{Offset: x[0], Length: x[1]})
	}
	return list
}

// checked hashes what is read through it.
type checked struct {
	r    io.Reader
	hash hash.Hash
}

func (c *checked) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.hash.Write(b[:n])
	return n, err
}

// verify reads on to the end: a content that is too long is another one.
func (c *checked) verify(want string) error {
	if n, err := io.Copy(io.Discard, io.LimitReader(c, 1)); n > 0 || err != nil {
		return broken(err, "the content %s is too long", want)
	}
	if got := hex.EncodeToString(c.hash.Sum(nil)); got != want {
		return broken(nil, "the content %s has the digest %s", want, got)
	}
	return nil
}
