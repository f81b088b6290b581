package disk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"aether/image"
	"aether/internal/host/storedir"
	"aether/sandbox"
)

// formatVersion changes when the same input makes another disk.
const formatVersion = 1

// Store keeps the disks of one user.
//
//	NAME-CONTENT  a disk; the name is of what it was made from
//	work/…        a disk on its way, which belongs to the holder of
//	locks/…       its lock
type Store struct {
	dir string
	// fresh is how long a look at a root is good for.
	fresh time.Duration

	mu   sync.Mutex
	seen map[string]look // by name
}

// look is what a root was found to be.
type look struct {
	content string
	when    time.Time
}

// lookTime is short enough for people not to notice, and long enough for machines
// that are made one after another to share a look at a hundred thousand files.
const lookTime = time.Second

// Open uses the store in dir, which is made if it is missing, and removes what
// dead programs left in it. Errors: Denied for a directory that others can change.
func Open(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, fresh: lookTime, seen: map[string]look{}}
	if err := storedir.Prepare(dir, "work", "locks"); err != nil {
		return nil, err
	}
	return s, s.reap()
}

func (s *Store) reap() error {
	left, err := os.ReadDir(filepath.Join(s.dir, "work"))
	for _, entry := range left {
		lock, lockErr := storedir.Try(s.lockFile(entry.Name()))
		if errors.Is(lockErr, storedir.ErrHeld) {
			continue
		}
		if lockErr != nil {
			return lockErr
		}
		err = errors.Join(err, remove(s.workFile(entry.Name())), lock.Release())
	}
	return err
}

// Ensure gives the disk of a root, opened for reading, and makes it first if the
// store lacks it. The disk stays whole for whoever has it open, also when the
// root changes and the next Ensure makes another. Errors: Invalid for an image
// that makes no disk, Exhausted for want of room, Unavailable with Retry for
// files that change while they are copied.
func (s *Store) Ensure(ctx context.Context, root image.Root) (*os.File, error) {
	file, err := s.ensure(ctx, root)
	if err != nil {
		return nil, fmt.Errorf("disk: %w", err)
	}
	return file, nil
}

func (s *Store) ensure(ctx context.Context, root image.Root) (*os.File, error) {
	name := nameOf(root)
	if content, ok := s.known(name, root); ok {
		if file, err := os.Open(s.file(name, content)); !errors.Is(err, fs.ErrNotExist) {
			return file, err
		}
	}
	began := time.Now()
	t, err := scan(ctx, root)
	if err != nil {
		return nil, err
	}
	defer t.close()
	content := name
	if !fixed(root) {
		content = t.sum()
		s.remember(name, look{content, began})
	}
	final := s.file(name, content)
	if file, err := os.Open(final); !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	return s.make(ctx, filepath.Base(final), name, t)
}

// known gives the content of a root without a look at it.
func (s *Store) known(name string, root image.Root) (string, bool) {
	if fixed(root) {
		return name, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.seen[name]
	return last.content, ok && time.Since(last.when) < s.fresh
}

// remember keeps the looks that are still good, and this one.
func (s *Store) remember(name string, l look) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.seen, func(_ string, old look) bool { return time.Since(old.when) >= s.fresh })
	s.seen[name] = l
}

// fixed says that the root's digest tells all of its content.
func fixed(root image.Root) bool { return root.Digest != "" && len(root.Binds) == 0 }

// nameOf names a root by where it comes from.
func nameOf(root image.Root) string {
	return short(fmt.Sprintf("disk %d as %d: %q %q %q", formatVersion, os.Geteuid(), root.Digest, root.Layers, root.Binds))
}

// sum names a tree by the metadata of everything in it.
func (t *tree) sum() string {
	hash := sha256.New()
	var visit func(n *node)
	visit = func(n *node) {
		fmt.Fprintf(hash, "%q %o %d %d %d %d %d %d %q\n", n.Name, n.Mode, n.UID, n.GID, n.Size, n.Ino, n.Modified, n.Changed, n.target)
		for _, name := range n.names() {
			visit(n.children[name])
		}
		fmt.Fprintln(hash)
	}
	visit(t.root)
	return hex.EncodeToString(hash.Sum(nil))[:32]
}

func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// make writes the disk under its lock, and lets go of those that the same root
// made before it changed.
func (s *Store) make(ctx context.Context, base, name string, t *tree) (*os.File, error) {
	lock, err := storedir.Acquire(ctx, s.lockFile(base))
	if err != nil {
		return nil, err
	}
	file, err := s.makeLocked(ctx, base, t)
	if err == nil {
		err = s.forget(name, base)
	}
	return file, errors.Join(err, lock.Release())
}

func (s *Store) makeLocked(ctx context.Context, base string, t *tree) (*os.File, error) {
	final, work := filepath.Join(s.dir, base), s.workFile(base)
	if file, err := os.Open(final); !errors.Is(err, fs.ErrNotExist) {
		return file, err // another program made it while we waited
	}
	file, err := os.OpenFile(work, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, full(err)
	}
	err = write(ctx, file, t)
	if err == nil {
		err = file.Sync() // the final name promises whole content
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(work, final)
	}
	if err != nil {
		return nil, errors.Join(full(err), remove(work))
	}
	return os.Open(final)
}

// forget removes the other disks of the same name. Machines that run on them
// have them open and keep them.
func (s *Store) forget(name, base string) error {
	all, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, entry := range all {
		if strings.HasPrefix(entry.Name(), name+"-") && entry.Name() != base {
			err = errors.Join(err, remove(filepath.Join(s.dir, entry.Name())))
		}
	}
	return err
}

// remove is fine with a file that is gone.
func remove(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (s *Store) file(name, content string) string { return filepath.Join(s.dir, name+"-"+content) }
func (s *Store) workFile(base string) string      { return filepath.Join(s.dir, "work", base) }
func (s *Store) lockFile(base string) string      { return filepath.Join(s.dir, "locks", base) }

// Collect removes the disks of all roots but those that are needed, and says which, or
// which it would in a dry run. Machines that run on them have them open and keep them.
func (s *Store) Collect(needed []image.Root, dry bool) (gone []sandbox.Collected, err error) {
	kept := map[string]bool{}
	for _, root := range needed {
		kept[nameOf(root)] = true
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("disk: %w", err)
	}
	for _, entry := range entries {
		name, _, isDisk := strings.Cut(entry.Name(), "-")
		if !isDisk || kept[name] || !entry.Type().IsRegular() {
			continue
		}
		path := filepath.Join(s.dir, entry.Name())
		bytes, err := storedir.Size(path)
		if err == nil && !dry {
			err = remove(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return gone, fmt.Errorf("disk: %w", err)
		}
		gone = append(gone, sandbox.Collected{Kind: "disk", Name: entry.Name(), Bytes: bytes})
	}
	return gone, nil
}
