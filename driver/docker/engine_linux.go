package docker

import (
	"context"
	"fmt"

	"aether/driver/daemon"
	"aether/driver/guestagent"
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
	daemon info
	guest  string // aether-guest

	network *network.Service
	opaque  bool // the runtime may be a kernel of its own
}

// open gets the engine ready at the first need of it.
func (d *Driver) open(ctx context.Context) error {
	e := &d.engine
	return e.Open(Name, func() error { return e.start(ctx, d.opts) })
}

func (e *engine) start(ctx context.Context, opts Options) (err error) {
	if e.guest, err = guestagent.Find(); err != nil {
		return err
	}
	socket, err := opts.address()
	if err != nil {
		return err
	}
	e.api = connect(socket)
	if e.daemon, err = examine(ctx, e.api, opts.Runtime); err != nil {
		return err
	}
	e.Fleet.Logger, e.network, e.opaque = opts.Logger, opts.Network, opts.Runtime != ""
	return e.Furnish(opts.RunDir, opts.Images, func(runDir string) (int, error) { return reap(ctx, e.api, runDir) })
}

// examine asks the daemon whether it can make sandboxes. Errors: Unavailable.
func examine(ctx context.Context, api *client, runtime string) (about info, err error) {
	if err := api.ping(ctx); err != nil {
		return about, err
	}
	if err := api.get(ctx, "/info", nil, &about); err != nil {
		return about, explain(err)
	}
	refuse := func(reason, remedy string) (info, error) {
		return about, &sandbox.Error{Class: sandbox.Unavailable, Reason: reason, Remedy: remedy}
	}
	if about.OSType != "linux" {
		return refuse(fmt.Sprintf("the daemon runs containers of %q, not of Linux", about.OSType), "")
	}
	if _, known := about.Runtimes[runtime]; runtime != "" && !known {
		return refuse(fmt.Sprintf("the daemon knows no runtime %.40q", runtime), "add it to the daemon's configuration (runtimes in /etc/docker/daemon.json)")
	}
	return about, nil
}

// Close implements sandbox.Closer.
func (d *Driver) Close(ctx context.Context) error { return d.engine.Close(ctx) }
