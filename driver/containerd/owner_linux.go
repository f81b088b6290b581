package containerd

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/api/services/containers/v1"

	"aether/host/storedir"
	"aether/sandbox"
)

const (
	// ownerLabel names the program that a container belongs to: the host and the
	// file that the program holds locked as long as it lives.
	ownerLabel = "aether.owner"
	idLabel    = "aether.id"
	lockSuffix = ".owner"
	// boxesSuffix is of the directory with what a program keeps of its sandboxes.
	boxesSuffix = ".boxes"
)

// owner is a program that makes sandboxes.
type owner struct {
	lock  *storedir.Lock
	label string
	boxes string
}

// newOwner takes a lock by which this program's sandboxes are known.
func newOwner(runDir string) (*owner, error) {
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
		o := &owner{lock: lock, label: host + ":" + path, boxes: boxesOf(path)}
		if err := os.Mkdir(o.boxes, 0o700); err != nil {
			return nil, errors.Join(err, lock.Release())
		}
		return o, nil
	}
}

func (o *owner) close() error { return errors.Join(os.RemoveAll(o.boxes), o.lock.Release()) }

func boxesOf(lock string) string { return strings.TrimSuffix(lock, lockSuffix) + boxesSuffix }

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

// Reap implements sandbox.Reaper: containerd keeps the containers of programs that
// were killed.
func (d *Driver) Reap(ctx context.Context) (int, error) {
	runDir, err := filepath.Abs(d.opts.RunDir)
	if err != nil {
		return 0, err
	}
	if _, err := os.Stat(runDir); errors.Is(err, os.ErrNotExist) {
		return 0, nil // never used
	}
	daemon, err := connect(d.opts.address())
	if err != nil {
		return 0, err
	}
	defer daemon.close()
	if _, err := daemon.ping(ctx); err != nil {
		// A daemon that is down is no failure for those who have never used it.
		if sandbox.ClassOf(err) == sandbox.Unavailable && len(locksIn(runDir)) == 0 {
			return 0, nil
		}
		return 0, err
	}
	return daemon.reap(ctx, runDir)
}

// reap removes the containers of dead programs, and what these kept.
func (d *daemon) reap(ctx context.Context, runDir string) (count int, err error) {
	dead := graveyard{}
	for _, path := range locksIn(runDir) {
		dead.holds(path)
	}
	list, err := d.containers.List(ctx, &containers.ListContainersRequest{})
	if err != nil {
		return 0, errors.Join(explain(err), dead.close(false))
	}
	for _, c := range list.GetContainers() {
		path, ours := lockOf(c.GetLabels()[ownerLabel], runDir)
		if !ours || !dead.holds(path) {
			continue
		}
		if err := d.bury(ctx, c); err != nil {
			return count, errors.Join(err, dead.close(false))
		}
		count++
	}
	return count, dead.close(true)
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

// close lets the locks go and, once no container uses it, what was kept.
func (g graveyard) close(unused bool) (err error) {
	for path, lock := range g {
		if unused {
			err = errors.Join(err, os.RemoveAll(boxesOf(path)))
		}
		err = errors.Join(err, lock.Release())
	}
	return err
}
