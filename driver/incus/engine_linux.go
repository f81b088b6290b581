package incus

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"aether/guest/inside"
	"aether/host/cgroup"
	"aether/host/storedir"
	"aether/image"
	"aether/image/overlay"
	"aether/sandbox"
)

var (
	_ sandbox.Closer = (*Driver)(nil)
	_ sandbox.Reaper = (*Driver)(nil)
)

// engine is what a program that makes sandboxes holds as long as it lives.
type engine struct {
	mu     sync.Mutex
	opened bool

	api    *client
	host   sight
	groups *cgroup.Hierarchy
	runDir string
	images *image.Store
	bare   overlay.Bare
	lock   *storedir.Lock
	owner  string
	fleet  inside.Fleet
}

// open gets the engine ready at the first need of it. A daemon that is down now
// may be there the next time, so a failure is not remembered.
func (d *Driver) open(ctx context.Context) (*engine, error) {
	leave, err := d.engine.fleet.Enter(Name) // a closed driver stays closed
	if err != nil {
		return nil, err
	}
	defer leave()
	e := &d.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.opened {
		if err := e.start(ctx, d.opts); err != nil {
			return nil, err
		}
		e.opened = true
	}
	return e, nil
}

func (e *engine) start(ctx context.Context, opts Options) (err error) {
	e.api = connect(opts.address())
	if e.host, err = look(ctx, e.api, opts); err != nil {
		return err
	}
	if e.groups, err = cgroup.Detect(); err != nil {
		return err
	}
	return e.prepare(ctx, opts)
}

// prepare makes what the engine keeps on this host, and removes what dead
// programs left at the daemon.
func (e *engine) prepare(ctx context.Context, opts Options) (err error) {
	if e.runDir, err = filepath.Abs(opts.RunDir); err != nil {
		return err
	}
	if err := os.MkdirAll(e.runDir, 0o711); err != nil {
		return err
	}
	if _, err := e.api.reap(ctx, e.runDir); err != nil {
		return err
	}
	if e.bare, err = overlay.MakeBare(filepath.Join(e.runDir, "bare")); err != nil {
		return err
	}
	if e.images, err = opts.Images(); err != nil {
		return err
	}
	e.lock, e.owner, err = newOwner(e.runDir)
	return err
}

// Close implements sandbox.Closer.
func (d *Driver) Close(ctx context.Context) error {
	e := &d.engine
	first, err := e.fleet.Close(ctx)
	if !first || e.lock == nil {
		return err
	}
	return errors.Join(err, e.lock.Release())
}
