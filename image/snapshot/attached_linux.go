package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"aether/sandbox"
)

// Attach adds a content that is no file of the sandbox, under a name. The caller
// writes the file and closes it before Commit.
func (d *Draft) Attach(name string) (*os.File, error) {
	if len(d.attached) == maxAttached {
		return nil, &sandbox.Error{Class: sandbox.Exhausted, Op: "snapshot: attach", Reason: fmt.Sprintf("there are %d contents already", maxAttached)}
	}
	file, err := os.OpenFile(d.copyPath(len(d.contents)), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return nil, err
	}
	if d.attached == nil {
		d.attached = map[string]int{}
	}
	d.attached[name] = len(d.contents)
	d.contents = append(d.contents, content{})
	return file, nil
}

// attachedDigests are known once contents have been named.
func (d *Draft) attachedDigests() map[string]string {
	list := map[string]string{}
	for name, number := range d.attached {
		list[name] = d.contents[number].digest
	}
	return list
}

// placeAttached puts what is attached beside the contents of files.
func (d *Draft) placeAttached(ctx context.Context, dir string, rec Record) error {
	for _, digest := range rec.Attached {
		if err := d.placeOne(ctx, dir, digest); err != nil {
			return err
		}
	}
	return nil
}

// placeOne puts a content, or what it is composed of, into a directory.
func (d *Draft) placeOne(ctx context.Context, dir, digest string) error {
	list := []string{digest}
	if c, ok := d.composed[digest]; ok {
		list = c.blobs()
	}
	for _, digest := range list {
		to := filepath.Join(dir, digest)
		if there, err := exists(to); there {
			continue
		} else if err != nil {
			return err
		}
		if err := place(ctx, to, d.store.blob(digest), d.store.heldAt(digest)); err != nil {
			return err
		}
	}
	return nil
}

// OpenAttached opens a content that is attached to the snapshot in dir, whose
// record is rec, and checks it against its digest, unless this program has checked
// that very file before. Errors: NotFound if nothing of that name is attached,
// Invalid for a snapshot that is damaged.
func (s *Store) OpenAttached(ctx context.Context, dir string, rec Record, name string) (*os.File, error) {
	digest, ok := rec.Attached[name]
	if !ok {
		return nil, &sandbox.Error{Class: sandbox.NotFound, Op: "snapshot: open", Field: "snapshot", Reason: fmt.Sprintf("it has no %.80q attached", name)}
	}
	if c, ok := rec.Composed[digest]; ok {
		return s.assemble(ctx, dir, c)
	}
	return s.openBlob(ctx, dir, digest)
}

// identity tells a file from others, and from itself after a change.
type identity struct {
	device, inode     uint64
	size              int64
	modified, changed syscall.Timespec
}

// maxChecked bounds what is known of files that were checked.
const maxChecked = 4096

func (s *Store) check(ctx context.Context, file *os.File, digest string) error {
	id, err := identityOf(file)
	if err != nil {
		return err
	}
	s.mu.Lock()
	known := s.checked[id] == digest
	s.mu.Unlock()
	if known {
		return nil
	}
	got, err := digestFile(ctx, file)
	if err != nil {
		return err
	}
	if got != digest {
		return broken(nil, "the content %s has the digest %s", digest, got)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.checked) == maxChecked {
		clear(s.checked)
	}
	s.checked[id] = digest
	_, err = file.Seek(0, io.SeekStart)
	return err
}

func identityOf(file *os.File) (id identity, err error) {
	info, err := file.Stat()
	if err != nil {
		return id, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return id, errors.New("snapshot: the file system does not tell files apart")
	}
	return identity{uint64(st.Dev), st.Ino, st.Size, st.Mtim, st.Ctim}, nil
}
