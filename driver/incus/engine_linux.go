package incus

import (
	"context"

	"aether/driver/daemon"
	"aether/internal/host/cgroup"
	"aether/network"
	"aether/sandbox"
)

var (
	_ sandbox.Closer = (*Driver)(nil)
	_ sandbox.Reaper = (*Driver)(nil)
)

// engine is what a program that makes sandboxes holds as long as it lives.
type engine struct {
	daemon.Home
	api    *client
	host   sight
	groups *cgroup.Hierarchy

	network *network.Service
}

// open gets the engine ready at the first need of it.
func (d *Driver) open(ctx context.Context) error {
	e := &d.engine
	return e.Open(Name, func() error { return e.start(ctx, d.opts) })
}

func (e *engine) start(ctx context.Context, opts Options) (err error) {
	e.api = connect(opts.address())
	if e.host, err = look(ctx, e.api, opts); err != nil {
		return err
	}
	if e.groups, err = cgroup.Detect(); err != nil {
		return err
	}
	e.Fleet.Logger, e.network = opts.Logger, opts.Network
	return e.Furnish(opts.RunDir, opts.Images, func(runDir string) (int, error) { return e.api.reap(ctx, runDir) })
}

// Close implements sandbox.Closer.
func (d *Driver) Close(ctx context.Context) error { return d.engine.Close(ctx) }
