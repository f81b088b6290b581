package incus

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"aether/host/storedir"
	"aether/sandbox"
)

const (
	// ownerKey is the setting that names the program that a container belongs to:
	// the host and the file that the program holds locked as long as it lives.
	ownerKey   = "user.aether.owner"
	idKey      = "user.aether.id"
	lockSuffix = ".owner"
)

// newOwner takes a lock by which this program's containers are known.
func newOwner(runDir string) (*storedir.Lock, string, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, "", err
	}
	for {
		path := filepath.Join(runDir, strings.ToLower(rand.Text())+lockSuffix)
		lock, err := storedir.Try(path)
		if errors.Is(err, storedir.ErrHeld) {
			continue // a reaper looked at it before we could lock it, and removes it
		}
		return lock, host + ":" + path, err
	}
}

// lockOf gives the lock that a setting speaks of, if it is one of this directory
// on this host: of others nobody here knows whether they live.
func lockOf(owner, runDir string) (string, bool) {
	host, path, _ := strings.Cut(owner, ":")
	self, err := os.Hostname()
	return path, err == nil && host == self && filepath.Dir(path) == runDir && strings.HasSuffix(path, lockSuffix)
}

func locksIn(runDir string) []string {
	found, _ := filepath.Glob(filepath.Join(runDir, "*"+lockSuffix)) // fails for a bad pattern only
	return found
}

// Reap implements sandbox.Reaper: the daemon keeps the containers of programs
// that were killed, and lets them run.
func (d *Driver) Reap(ctx context.Context) (int, error) {
	runDir, err := filepath.Abs(d.opts.RunDir)
	if err != nil {
		return 0, err
	}
	if _, err := os.Stat(runDir); errors.Is(err, os.ErrNotExist) {
		return 0, nil // never used
	}
	api := connect(d.opts.address())
	if _, err := api.ping(ctx); err != nil {
		// A daemon that is down is no failure for those who have never used it.
		if sandbox.ClassOf(err) == sandbox.Unavailable && len(locksIn(runDir)) == 0 {
			return 0, nil
		}
		return 0, err
	}
	return api.reap(ctx, runDir)
}

// graveyard is the locks of dead programs, by their files, held.
type graveyard map[string]*storedir.Lock

// holds says that the program of a lock is dead. So is one whose lock is missing:
// it was reaped while the daemon was still making a container for it.
func (g graveyard) holds(path string) bool {
	if g[path] != nil {
		return true
	}
	lock, err := storedir.Try(path)
	if err != nil {
		return false
	}
	g[path] = lock
	return true
}

func (g graveyard) close() (err error) {
	for _, lock := range g {
		err = errors.Join(err, lock.Release())
	}
	return err
}
