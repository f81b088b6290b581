package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/moby/client"

	"aether/host/storedir"
	"aether/sandbox"
)

const (
	// ownerLabel names the program that a container belongs to: the host and the
	// file that the program holds locked as long as it lives.
	ownerLabel = "aether.owner"
	idLabel    = "aether.id"
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

// lockOf gives the lock that a label speaks of, if it is one of this directory on
// this host: of others nobody here knows whether they live.
func lockOf(owner, runDir string) (string, bool) {
	host, path, _ := strings.Cut(owner, ":")
	self, err := os.Hostname()
	return path, err == nil && host == self && filepath.Dir(path) == runDir && strings.HasSuffix(path, lockSuffix)
}

// Reap implements sandbox.Reaper: the daemon keeps the containers of programs
// that were killed.
func (d *Driver) Reap(ctx context.Context) (int, error) {
	runDir, err := filepath.Abs(d.opts.RunDir)
	if err != nil {
		return 0, err
	}
	if _, err := os.Stat(runDir); errors.Is(err, os.ErrNotExist) {
		return 0, nil // never used
	}
	count, err := reap(ctx, d.opts, runDir)
	// A daemon that is down is no failure for those who have never used it.
	if locks := locksIn(runDir); sandbox.ClassOf(err) == sandbox.Unavailable && len(locks) == 0 {
		return 0, nil
	}
	return count, err
}

func locksIn(runDir string) []string {
	found, _ := filepath.Glob(filepath.Join(runDir, "*"+lockSuffix)) // fails for a bad pattern only
	return found
}

func reap(ctx context.Context, opts Options, runDir string) (int, error) {
	socket, err := opts.address()
	if err != nil {
		return 0, err
	}
	api, err := connect(socket)
	if err != nil {
		return 0, err
	}
	if err := ping(ctx, api, socket); err != nil {
		return 0, err
	}
	return reapWith(ctx, api, runDir)
}

// reapWith removes the containers of dead programs, and their locks.
func reapWith(ctx context.Context, api *client.Client, runDir string) (count int, err error) {
	dead := graveyard{}
	defer func() { err = errors.Join(err, dead.close()) }()
	for _, path := range locksIn(runDir) {
		dead.holds(path)
	}
	list, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", ownerLabel)})
	if err != nil {
		return 0, explain(err)
	}
	for _, c := range list.Items {
		path, ours := lockOf(c.Labels[ownerLabel], runDir)
		if !ours || !dead.holds(path) {
			continue
		}
		if err := remove(ctx, api, c.ID); err != nil {
			return count, err
		}
		count++
	}
	return count, nil
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
