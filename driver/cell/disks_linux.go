package cell

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"aether/host/confine"
	"aether/host/storedir"
)

// disks keeps the writes of cells that want them on disk: one directory for each
// program, with a lock that the kernel releases when the program dies, and in it
// one for each cell.
type disks struct {
	root string

	mu   sync.Mutex
	own  string // this program's, once there is need of it
	lock *storedir.Lock
}

const lockSuffix = ".lock"

// make gives a cell its directory.
func (d *disks) make(host *confine.Host, id string) (string, error) {
	own, err := d.open()
	if err != nil {
		return "", fmt.Errorf("make a disk: %w", err)
	}
	dir := filepath.Join(own, id)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a disk: %w", err)
	}
	if err := host.MakeDisk(dir); err != nil {
		return "", errors.Join(err, confine.RemoveDisk(dir))
	}
	return dir, nil
}

// open makes this program's directory at the first need. The lock is there
// before it, so that nobody takes it for a dead program's.
func (d *disks) open() (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.own != "" {
		return d.own, nil
	}
	if err := storedir.Prepare(d.root); err != nil {
		return "", err
	}
	own := filepath.Join(d.root, strings.ToLower(rand.Text()))
	lock, err := storedir.Try(own + lockSuffix)
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(own, 0o711); err != nil {
		return "", errors.Join(err, lock.Release())
	}
	d.own, d.lock = own, lock
	return own, nil
}

func (d *disks) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.own == "" {
		return nil
	}
	err := confine.RemoveDisk(d.own)
	d.own = ""
	return errors.Join(err, d.lock.Release())
}

// reap removes the directories of programs that died, and says how many.
func (d *disks) reap() (int, error) {
	locks, err := filepath.Glob(filepath.Join(d.root, "*"+lockSuffix))
	if err != nil {
		return 0, err
	}
	count := 0
	for _, path := range locks {
		lock, err := storedir.Try(path)
		if errors.Is(err, storedir.ErrHeld) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return count, err
		}
		err = confine.RemoveDisk(strings.TrimSuffix(path, lockSuffix))
		if err := errors.Join(err, lock.Release()); err != nil {
			return count, fmt.Errorf("remove the disks of a dead program: %w", err)
		}
		count++
	}
	return count, nil
}
