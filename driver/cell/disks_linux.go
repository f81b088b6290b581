package cell

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"aether/internal/host/confine"
	"aether/internal/host/storedir"
	"aether/sandbox"
)

// disks keeps the writes of cells that want them on disk: one directory for each
// program, with a lock that the kernel releases when the program dies, and in it
// one for each cell.
type disks struct {
	root string
	// boundless says that the default bound was found not to work here.
	boundless atomic.Bool

	mu   sync.Mutex
	own  string // this program's, once there is need of it
	lock *storedir.Lock
}

const (
	lockSuffix = ".lock"
	// defaultOnDisk bounds what a cell writes to disk if nothing else is said and
	// this host can hold it. Its file takes room only as it is written to.
	defaultOnDisk = 10 << 30
)

// makeDisk prepares the place of the cell's writes, if that is on disk.
func (i *instance) makeDisk(ctx context.Context, config *confine.Config) (err error) {
	if !i.spec.Limits.DiskBacked {
		return nil
	}
	i.disk, i.diskBound, err = i.engine.disks.make(ctx, i.engine.host, i.ID(), i.spec.Limits.DiskBytes)
	config.Disk = i.disk
	return err
}

func (i *instance) removeDisk() error {
	if i.disk == "" {
		return nil
	}
	return storedir.RemoveAll(i.disk)
}

// make gives a cell its directory, in which it may write so many bytes: those that
// are asked for, or a default, or none, where it cannot be bounded, by which it has
// as many as there is room for.
func (d *disks) make(ctx context.Context, host *confine.Host, id string, asked int64) (dir string, bound int64, err error) {
	own, err := d.open()
	if err != nil {
		return "", 0, fmt.Errorf("make a disk: %w", err)
	}
	if bound = asked; bound == 0 && !d.boundless.Load() {
		bound = host.DefaultDisk(own, defaultOnDisk)
	}
	dir = filepath.Join(own, id)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", 0, fmt.Errorf("make a disk: %w", err)
	}
	if bound > 0 {
		err = host.MakeBoundedDisk(ctx, dir, bound)
	} else {
		err = host.MakeDisk(dir)
	}
	if err != nil {
		return "", 0, errors.Join(err, storedir.RemoveAll(dir))
	}
	return dir, bound, nil
}

// doWithout says whether a cell that could not be booted is to be tried again on a
// disk without a bound: nobody asked for one, and loop devices that are there
// cannot be used.
func (i *instance) doWithout(err error) bool {
	refused := sandbox.ClassOf(err) == sandbox.Unsupported && i.diskBound > 0 && i.spec.Limits.DiskBytes == 0
	if refused && !i.engine.disks.boundless.Swap(true) {
		i.engine.log.Warn("cell: what cells write to disk is not bounded", "err", err)
	}
	return refused
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
	err := storedir.RemoveAll(d.own)
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
		err = storedir.RemoveAll(strings.TrimSuffix(path, lockSuffix))
		if err := errors.Join(err, lock.Release()); err != nil {
			return count, fmt.Errorf("remove the disks of a dead program: %w", err)
		}
		count++
	}
	return count, nil
}
