package containerd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"aether/driver/daemon"
)

const (
	// ownerLabel names the program that a container belongs to.
	ownerLabel = "aether.owner"
	idLabel    = "aether.id"
)

// boxesOf is the directory with what the program that has a lock keeps of its
// sandboxes.
func boxesOf(lock string) string { return strings.TrimSuffix(lock, filepath.Ext(lock)) + ".boxes" }

// Reap implements sandbox.Reaper.
func (d *Driver) Reap(ctx context.Context) (int, error) {
	client := newClient(d.opts.address())
	defer client.close()
	meet := func() error { _, err := client.ping(ctx); return err }
	return daemon.Reap(d.opts.RunDir, meet, func(runDir string) (int, error) { return client.reap(ctx, runDir) })
}

// reap removes the containers of dead programs and, once none uses it, what these
// kept.
func (d *client) reap(ctx context.Context, runDir string) (count int, err error) {
	dead := daemon.OpenGraveyard(runDir)
	defer func() { err = errors.Join(err, dead.Close()) }()
	list, err := d.list(ctx)
	if err != nil {
		return 0, explain(err)
	}
	for _, c := range list {
		if !dead.Has(c.labels[ownerLabel]) {
			continue
		}
		if err := d.bury(ctx, c); err != nil {
			return count, err
		}
		count++
	}
	for _, lock := range dead.Locks() {
		err = errors.Join(err, os.RemoveAll(boxesOf(lock)))
	}
	return count, err
}
