package daemon

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"aether/internal/host/storedir"
)

// lockSuffix is of the files that programs hold locked as long as they live.
const lockSuffix = ".owner"

// Owner is a program that has a daemon make containers.
type Owner struct {
	// Label is what its containers carry: the host and the file that it holds
	// locked.
	Label string
	// Path is that file.
	Path string
	lock *storedir.Lock
}

// newOwner takes a lock by which this program's containers are known.
func newOwner(runDir string) (*Owner, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	for {
		path := filepath.Join(runDir, strings.ToLower(rand.Text())+lockSuffix)
		lock, err := storedir.Try(path)
		if errors.Is(err, storedir.ErrHeld) {
			continue // a reaper looked at it before we could lock it, and removes it
		}
		if err != nil {
			return nil, err
		}
		return &Owner{Label: host + ":" + path, Path: path, lock: lock}, nil
	}
}

// Close lets the lock go: nothing of this program is left.
func (o *Owner) Close() error { return o.lock.Release() }

// lockOf gives the lock that a label speaks of, if it is one of this directory on
// this host: of others nobody here knows whether they live.
func lockOf(label, runDir string) (string, bool) {
	host, path, _ := strings.Cut(label, ":")
	self, err := os.Hostname()
	return path, err == nil && host == self && filepath.Dir(path) == runDir && strings.HasSuffix(path, lockSuffix)
}

func locksIn(runDir string) []string {
	found, _ := filepath.Glob(filepath.Join(runDir, "*"+lockSuffix)) // fails for a bad pattern only
	return found
}
