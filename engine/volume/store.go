package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Store mounts volumes below one directory, and knows who uses which.
type Store struct {
	dir string

	mu    sync.Mutex
	users map[string]map[string]bool // of each volume that is mounted
}

const (
	diskName  = "disk"  // the file system of a volume with a bound
	filesName = "files" // the directory of one without
)

// Open makes a store whose volumes are mounted below dir, of which this program is the
// only user. What a program that was killed left mounted there is let go.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("volume: %w", err)
	}
	s := &Store{dir: dir, users: map[string]map[string]bool{}}
	return s, s.clear()
}

// clear lets go of everything that is mounted. It removes empty directories alone: what
// is in one that could not be let go is somebody's.
func (s *Store) clear() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("volume: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		errs = append(errs, s.unmount(entry.Name()))
	}
	return errors.Join(errs...)
}

// Make makes the contents of a volume in its home, which exists: with a bound of so many
// bytes, what its file system keeps for itself included, or without any if that is zero.
// Everybody inside of a sandbox may write to it. Errors: Unsupported where it cannot be
// bounded; Exhausted.
func (s *Store) Make(ctx context.Context, id, home string, bytes int64) (err error) {
	if bytes == 0 {
		dir := filepath.Join(home, filesName)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("volume: %w", err)
		}
		return open(dir)
	}
	file := filepath.Join(home, diskName)
	if err := format(ctx, file, bytes); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file))
		}
	}()
	const maker = ""
	dir, err := s.Hold(id, home, maker)
	if err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(filepath.Join(dir, "lost+found")), open(dir), s.Release(id, maker))
}

// open lets everybody write who sees a directory. The mode is not that of its making, of
// which the umask takes a part.
func open(dir string) error {
	if err := os.Chmod(dir, 0o777); err != nil {
		return fmt.Errorf("volume: %w", err)
	}
	return nil
}

// Hold gives the directory of a volume, which is there until every user has released it.
func (s *Store) Hold(id, home, user string) (dir string, err error) {
	if files := filepath.Join(home, filesName); isDir(files) {
		return files, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	dir = filepath.Join(s.dir, id)
	if s.users[id] == nil {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("volume: %w", err)
		}
		if err := attach(filepath.Join(home, diskName), dir); err != nil {
			return "", errors.Join(err, os.Remove(dir))
		}
		s.users[id] = map[string]bool{}
	}
	s.users[id][user] = true
	return dir, nil
}

func isDir(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.IsDir()
}

// Release says that a user needs the directory no more. What nobody needs is let go; one
// who does not use it is no error.
func (s *Store) Release(id, user string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.users[id][user] {
		return nil
	}
	delete(s.users[id], user)
	if len(s.users[id]) > 0 {
		return nil
	}
	delete(s.users, id)
	return s.unmount(id)
}

// unmount lets go of a directory.
func (s *Store) unmount(id string) error {
	dir := filepath.Join(s.dir, id)
	if err := detach(dir); err != nil {
		return fmt.Errorf("volume: %w", err)
	}
	if err := os.Remove(dir); err != nil {
		return fmt.Errorf("volume: %w", err)
	}
	return nil
}

// Close lets go of everything.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.users)
	return s.clear()
}
