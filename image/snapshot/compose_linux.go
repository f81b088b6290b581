package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Over has what the draft has in common with a basis not be kept again.
func (d *Draft) Over(basis *Basis) { d.basis = basis }

// compose finds out what of the attached contents need not be kept.
func (d *Draft) compose(ctx context.Context) (err error) {
	if d.basis == nil {
		return nil
	}
	index, err := d.basis.index(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, index.close()) }()
	for _, number := range d.attached {
		if err := d.composeOne(ctx, number, index); err != nil {
			return err
		}
	}
	return nil
}

func (d *Draft) composeOne(ctx context.Context, number int, index *pages) error {
	digest := d.contents[number].digest
	file, err := openPlain(d.copyPath(number))
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Size() < leastComposed {
		return err
	}
	if there, err := exists(d.store.blob(digest)); there || err != nil {
		return err
	}
	list, err := match(ctx, file, index)
	if err != nil {
		return err
	}
	if d.parts+len(list) > maxParts || 4*lengthOf(list, -1) > 3*info.Size() {
		return nil // it has little in common with the basis
	}
	return d.keepComposed(ctx, number, file, list)
}

// stretch is a part of a content, and where the basis has it; -1 is nowhere.
type stretch struct {
	file           int
	offset, length int64
}

// match finds the stretches of a file that a basis has.
func match(ctx context.Context, file *os.File, index *pages) (list []stretch, err error) {
	last := place64{file: -1}
	err = eachPage(ctx, file, func(page []byte, _ int64) error {
		at, found, err := index.find(page, last)
		if err != nil {
			return err
		}
		if last = at; !found {
			at = place64{file: -1}
		}
		list = extend(list, stretch{at.file, at.offset, int64(len(page))})
		return nil
	})
	return worthwhile(list), err
}

// extend adds a stretch, to the last one if it goes on there.
func extend(list []stretch, s stretch) []stretch {
	if n := len(list); n > 0 && list[n-1].file == s.file && (s.file < 0 || list[n-1].offset+list[n-1].length == s.offset) {
		list[n-1].length += s.length
		return list
	}
	return append(list, s)
}

// worthwhile leaves out what is shorter than it is worth.
func worthwhile(list []stretch) (out []stretch) {
	for _, s := range list {
		if s.length < leastRun*pageSize {
			s.file, s.offset = -1, 0
		}
		out = extend(out, s)
	}
	return out
}

// lengthOf is how much of a content is in a file.
func lengthOf(list []stretch, file int) (sum int64) {
	for _, s := range list {
		if s.file == file {
			sum += s.length
		}
	}
	return sum
}

// keepComposed makes what is new of a content one of its own.
func (d *Draft) keepComposed(ctx context.Context, number int, file *os.File, list []stretch) error {
	c := composition{Base: d.basis.blobs}
	if lengthOf(list, -1) > 0 {
		own, err := d.writeOwn(ctx, file, list)
		if err != nil {
			return err
		}
		c.Own = own
	}
	written := int64(0)
	for _, s := range list {
		part := [3]int64{int64(s.file), s.offset, s.length}
		if s.file < 0 {
			part = [3]int64{int64(len(c.Base)), written, s.length}
			written += s.length
		}
		c.Parts = append(c.Parts, part)
	}
	if d.composed == nil {
		d.composed = map[string]composition{}
	}
	d.composed[d.contents[number].digest] = c
	d.contents[number].composed = true
	d.parts += len(list)
	return nil
}

// writeOwn writes what the basis does not have, and gives its digest.
func (d *Draft) writeOwn(ctx context.Context, from *os.File, list []stretch) (string, error) {
	number := len(d.contents)
	to, err := os.OpenFile(d.copyPath(number), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return "", err
	}
	hash, at := sha256.New(), int64(0)
	for _, s := range list {
		if s.file < 0 && err == nil {
			_, err = io.Copy(io.MultiWriter(to, hash), contextReader{ctx, io.NewSectionReader(from, at, s.length)})
		}
		at += s.length
	}
	if err := errors.Join(err, to.Close()); err != nil {
		return "", err
	}
	digest := hex.EncodeToString(hash.Sum(nil))
	d.contents = append(d.contents, content{digest: digest})
	return digest, nil
}

// assemble makes a content of its parts, as a file without a name.
func (s *Store) assemble(ctx context.Context, dir string, c composition) (_ *os.File, err error) {
	work, err := s.newWork()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, work.remove()) }()
	whole, err := os.OpenFile(filepath.Join(work.dir, "whole"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return nil, err
	}
	if err := s.assembleTo(ctx, whole, dir, c); err != nil {
		return nil, errors.Join(err, whole.Close())
	}
	return whole, nil
}

func (s *Store) assembleTo(ctx context.Context, whole *os.File, dir string, c composition) (err error) {
	var files []*os.File
	defer func() {
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
	}()
	for _, digest := range c.blobs() {
		file, err := s.openBlob(ctx, dir, digest)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	for _, p := range c.Parts {
		if err := ctx.Err(); err != nil {
			return err
		}
		from := files[p[0]]
		if _, err := from.Seek(p[1], io.SeekStart); err != nil {
			return err
		}
		if n, err := io.CopyN(whole, from, p[2]); errors.Is(err, io.EOF) {
			return broken(nil, "a content has %d bytes where it should have %d", n, p[2])
		} else if err != nil {
			return err
		}
	}
	_, err = whole.Seek(0, io.SeekStart)
	return err
}

// openBlob opens a content of the snapshot in dir, and checks it.
func (s *Store) openBlob(ctx context.Context, dir, digest string) (*os.File, error) {
	file, err := openPlain(filepath.Join(dir, blobsName, digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, broken(err, "the content %s is missing", digest)
	}
	if err != nil {
		return nil, err
	}
	if err := s.check(ctx, file, digest); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
