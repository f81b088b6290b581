package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"aether/internal/host/storedir"
	"aether/sandbox"
)

const (
	lockName    = "lock"
	damagedName = "damaged"
	removedName = "removed"
)

// Dir is a directory of records that this program alone uses.
type Dir struct {
	path string
	log  *slog.Logger
	lock *storedir.Lock
	disk disk
}

// Open takes a directory, which is made if it is missing. What was on its way out
// when the last user died is removed. Errors: Conflict if another program uses it;
// Denied if it belongs to another user.
func Open(path string, log *slog.Logger) (*Dir, error) {
	return open(path, log, osDisk{})
}

// OpenWatched is Open for tests: before is called before every change of the directory,
// which is not made if it fails.
func OpenWatched(path string, log *slog.Logger, before func() error) (*Dir, error) {
	return open(path, log, watched{before})
}

func open(path string, log *slog.Logger, disk disk) (*Dir, error) {
	if err := storedir.Prepare(path); err != nil {
		return nil, err
	}
	lock, err := takeLock(filepath.Join(path, lockName), log)
	if errors.Is(err, storedir.ErrHeld) {
		return nil, &sandbox.Error{Class: sandbox.Conflict, Op: "state: open " + path, Reason: "another program uses it",
			Remedy: "ask that one, or use another directory"}
	}
	if err != nil {
		return nil, fmt.Errorf("state: open %s: %w", path, err)
	}
	d := &Dir{path: path, log: log, lock: lock, disk: disk}
	if err := d.clear(); err != nil {
		return nil, errors.Join(fmt.Errorf("state: open %s: %w", path, err), lock.Release())
	}
	return d, nil
}

// dyingTime is how long the lock of a program that was killed is waited for: a process
// that it was about to start has its descriptors until it ends too.
var dyingTime = 10 * time.Second // tests change it

// takeLock takes the lock, which names its holder, at once or when what is left of a dead
// holder has ended. Errors: storedir.ErrHeld.
func takeLock(path string, log *slog.Logger) (*storedir.Lock, error) {
	lock, err := storedir.Try(path)
	if errors.Is(err, storedir.ErrHeld) && isDead(path) {
		ctx, cancel := context.WithTimeout(context.Background(), dyingTime)
		defer cancel()
		if lock, err = storedir.Acquire(ctx, path); errors.Is(err, context.DeadlineExceeded) {
			err = storedir.ErrHeld
		}
	}
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		log.Warn("state: the lock does not name its holder", "err", err) // a full disk is no reason not to begin
	}
	return lock, nil
}

// isDead says whether the program that a lock names is gone. One that names nobody may be
// about to.
func isDead(path string) bool {
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil || pid <= 0 {
		return false
	}
	holder, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer holder.Release()
	return errors.Is(holder.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// View reads a directory that another program may be using meanwhile: records are
// loaded from it, and nothing is written to it. It need not be closed.
func View(path string, log *slog.Logger) *Dir {
	return &Dir{path: path, log: log, disk: osDisk{}}
}

// clear removes what was on its way out.
func (d *Dir) clear() error {
	if err := storedir.RemoveAll(d.removed()); err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(d.removed(), 0o700), os.MkdirAll(filepath.Join(d.path, damagedName), 0o700))
}

// File is the path of a file of the directory itself, beside the records.
func (d *Dir) File(name string) string { return filepath.Join(d.path, name) }

// Keep replaces a file of the directory itself, which nobody else may read, and has it on
// disk.
func (d *Dir) Keep(name string, contents []byte) error {
	draft := d.File(name + ".new")
	err := d.disk.write(draft, contents, true)
	if err == nil {
		err = d.disk.rename(draft, d.File(name))
	}
	if err == nil {
		err = d.disk.sync(d.path)
	}
	if err != nil {
		return fmt.Errorf("state: keep %s: %w", name, Full(err))
	}
	return nil
}

func (d *Dir) removed() string { return filepath.Join(d.path, removedName) }

// Close lets another program use the directory.
func (d *Dir) Close() error { return d.lock.Release() }
