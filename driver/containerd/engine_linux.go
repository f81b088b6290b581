package containerd

import (
	"context"
	"errors"
	"os"

	"aether/driver/daemons"
	"aether/guest/inside"
	"aether/sandbox"
)

var (
	_ sandbox.Closer = (*Driver)(nil)
	_ sandbox.Reaper = (*Driver)(nil)
)

// engine is what a program that makes sandboxes holds as long as it lives.
type engine struct {
	daemons.Home
	opts   Options
	daemon *daemon
	guest  string // aether-guest
	boxes  string // has what is kept of the sandboxes
}

// open gets the engine ready at the first need of it.
func (d *Driver) open(ctx context.Context) (*engine, error) {
	e := &d.engine
	return e, e.Open(d.opts.name(), func() error { return e.start(ctx, d.opts) })
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
	err := e.Furnish(e.opts.RunDir, e.opts.Images, func(runDir string) (int, error) { return daemon.reap(ctx, runDir) })
	if err != nil {
		return err
	}
	e.boxes = boxesOf(e.Owner.Path)
	if err := os.Mkdir(e.boxes, 0o700); err != nil {
		return errors.Join(err, e.Owner.Close())
	}
	return nil
}

// Close implements sandbox.Closer.
func (d *Driver) Close(ctx context.Context) error {
	e := &d.engine
	return e.Home.Close(ctx, func() error { return errors.Join(os.RemoveAll(e.boxes), e.daemon.close()) })
}
