package snapshot

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
)

// Basis is what a snapshot has attached that later ones may have in common with it, as the
// forks of one sandbox have most of their memory. The store keeps it until it is released.
type Basis struct {
	store *Store
	blobs []string
}

// heldPrefix is of the names by which a program keeps contents.
const heldPrefix = "blob-"

// NewBasis keeps what is attached to a snapshot: all that is large of one that stands for
// itself, and of one that was made over a basis, that. Nil if there is nothing. Release
// must follow.
func (s *Store) NewBasis(ctx context.Context, rec Record) (*Basis, error) {
	b := &Basis{store: s}
	for _, digest := range basisOf(rec) {
		there, err := s.keepBlob(ctx, digest)
		if err != nil {
			return nil, errors.Join(err, b.Release())
		}
		if there {
			b.blobs = append(b.blobs, digest)
		}
	}
	if len(b.blobs) == 0 {
		return nil, nil
	}
	return b, nil
}

func basisOf(rec Record) (list []string) {
	seen := map[string]bool{}
	add := func(digest string) {
		if !seen[digest] && len(list) < maxBase {
			seen[digest] = true
			list = append(list, digest)
		}
	}
	for _, c := range rec.Composed {
		for _, digest := range c.Base {
			add(digest)
		}
	}
	if len(list) > 0 {
		return list
	}
	for _, digest := range rec.Attached {
		add(digest)
	}
	return list
}

// Release lets the store forget it. A nil basis is nobody's.
func (b *Basis) Release() (err error) {
	if b == nil {
		return nil
	}
	for _, digest := range b.blobs {
		err = errors.Join(err, b.store.letBlob(digest))
	}
	return err
}

// keepBlob has a content not be collected while this program lives, and says whether it is
// there and large enough to be of use.
func (s *Store) keepBlob(ctx context.Context, digest string) (bool, error) {
	info, err := os.Lstat(s.blob(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || info.Size() < leastComposed {
		return false, err
	}
	lock, err := s.lockFor(ctx, "blobs")
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[digest] == 0 {
		if err = s.enlist(); err == nil {
			err = os.Link(s.blob(digest), s.heldPath(digest))
		}
	}
	if err == nil {
		s.held[digest]++
	}
	there := err == nil
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // it was collected
	}
	return there, errors.Join(err, lock.Release())
}

// heldPath is where this program keeps a content. s.mu is held.
func (s *Store) heldPath(digest string) string { return s.path("programs", s.own, heldPrefix+digest) }

// heldAt is heldPath for whoever does not hold s.mu.
func (s *Store) heldAt(digest string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heldPath(digest)
}

// letBlob gives up a content. A store that was closed has let go of everything.
func (s *Store) letBlob(digest string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.held[digest] {
	case 0:
		return nil
	case 1:
		delete(s.held, digest)
		return os.Remove(s.heldPath(digest))
	}
	s.held[digest]--
	return nil
}

// pages finds pages of a basis by what is in them.
type pages struct {
	files []*os.File
	seed  maphash.Seed
	known map[uint64]place64
	room  []byte
}

// place64 is where a page is: in which file, and at which offset.
type place64 struct {
	file   int
	offset int64
}

// index reads all pages of the basis.
func (b *Basis) index(ctx context.Context) (p *pages, err error) {
	p = &pages{seed: maphash.MakeSeed(), known: map[uint64]place64{}, room: make([]byte, pageSize)}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	for i, digest := range b.blobs {
		file, err := openPlain(b.store.heldAt(digest))
		if err != nil {
			return p, err
		}
		p.files = append(p.files, file)
		err = eachPage(ctx, file, func(page []byte, offset int64) error {
			p.known[maphash.Bytes(p.seed, page)] = place64{i, offset}
			return nil
		})
		if err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p *pages) close() (err error) {
	for _, f := range p.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// find finds a page; the one after the last is the likeliest. What has the same hash is
// compared: a sandbox may have chosen it.
func (p *pages) find(page []byte, after place64) (place64, bool, error) {
	for _, at := range []place64{{after.file, after.offset + pageSize}, p.known[maphash.Bytes(p.seed, page)]} {
		if at.file < 0 || at.file >= len(p.files) {
			continue
		}
		n, err := p.files[at.file].ReadAt(p.room, at.offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return at, false, err
		}
		if n == pageSize && bytes.Equal(p.room, page) {
			return at, true, nil
		}
	}
	return place64{file: -1}, false, nil
}

// eachPage reads a file, whose last page may be short.
func eachPage(ctx context.Context, file *os.File, visit func(page []byte, offset int64) error) error {
	const many = 256
	room := make([]byte, many*pageSize)
	for at := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := file.ReadAt(room, at)
		for from := 0; from < n; from += pageSize {
			if err := visit(room[from:min(from+pageSize, n)], at+int64(from)); err != nil {
				return err
			}
		}
		if at += int64(n); errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
