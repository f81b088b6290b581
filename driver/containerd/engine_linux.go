package containerd

import (
	"context"
	"errors"
	"os"

	"aether/driver/daemon"
	"aether/driver/guestagent"
	"aether/sandbox"
)

var (
	_ sandbox.Closer = (*Driver)(nil)
	_ sandbox.Reaper = (*Driver)(nil)
)

// engine is what a program that makes sandboxes holds as long as it lives.
type engine struct {
	daemon.Home
	opts   Options
	client *client
	guest  string // aether-guest
	boxes  string // has what is kept of the sandboxes
}

// open gets the engine ready at the first need of it.
func (d *Driver) open(ctx context.Context) error {
	e := &d.engine
	return e.Open(d.opts.name(), func() error { return e.start(ctx, d.opts) })
}

func (e *engine) start(ctx context.Context, opts Options) (err error) {
	if err := needs(ctx, opts); err != nil {
		return err
	}
	if e.guest, err = guestagent.Find(); err != nil {
		return err
	}
	e.opts = opts
	client := newClient(opts.address())
	if err := e.prepare(ctx, client); err != nil {
		client.close()
		return err
	}
	e.client = client
	return nil
}

// prepare makes what the engine keeps on this host, and removes what dead
// programs left.
func (e *engine) prepare(ctx context.Context, client *client) error {
	if _, err := client.ping(ctx); err != nil {
		return err
	}
	e.Fleet.Logger = e.opts.Logger
	err := e.Furnish(e.opts.RunDir, e.opts.Images, func(runDir string) (int, error) { return client.reap(ctx, runDir) })
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
	return e.Home.Close(ctx, func() error {
		e.client.close()
		return os.RemoveAll(e.boxes)
	})
}
