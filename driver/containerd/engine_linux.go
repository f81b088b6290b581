package containerd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"aether/guest/inside"
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

	opts   Options
	daemon *daemon
	guest  string // aether-guest
	images *image.Store
	bare   overlay.Bare
	owner  *owner
	fleet  inside.Fleet
}

// open gets the engine ready at the first need of it. A daemon that is down now
// may be there the next time, so a failure is not remembered.
func (d *Driver) open(ctx context.Context) (*engine, error) {
	leave, err := d.engine.fleet.Enter(d.opts.name()) // a closed driver stays closed
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
	if err := needs(ctx, opts); err != nil {
		return err
	}
	if e.guest, err = inside.Find(); err != nil {
		return err
	}
	e.opts = opts
	daemon, err := connect(opts.address())
	if err != nil {
		return err
	}
	if err := e.prepare(ctx, daemon); err != nil {
		return errors.Join(err, daemon.close())
	}
	e.daemon = daemon
	return nil
}

// prepare makes what the engine keeps on this host, and removes what dead
// programs left.
func (e *engine) prepare(ctx context.Context, daemon *daemon) error {
	if _, err := daemon.ping(ctx); err != nil {
		return err
	}
	runDir, err := filepath.Abs(e.opts.RunDir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(runDir, 0o711); err != nil {
		return err
	}
	if _, err := daemon.reap(ctx, runDir); err != nil {
		return err
	}
	if e.bare, err = overlay.MakeBare(filepath.Join(runDir, "bare")); err != nil {
		return err
	}
	if e.images, err = e.opts.Images(); err != nil {
		return err
	}
	e.owner, err = newOwner(runDir)
	return err
}

// Close implements sandbox.Closer.
func (d *Driver) Close(ctx context.Context) error {
	e := &d.engine
	first, err := e.fleet.Close(ctx)
	if !first || e.daemon == nil {
		return err
	}
	return errors.Join(err, e.owner.close(), e.daemon.close())
}
