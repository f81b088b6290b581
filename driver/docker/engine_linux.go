package docker

import (
	"context"
	"fmt"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

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
	socket string
	api    *client.Client
	daemon system.Info
	guest  string // aether-guest
}

// open gets the engine ready at the first need of it.
func (d *Driver) open(ctx context.Context) (*engine, error) {
	e := &d.engine
	return e, e.Open(Name, func() error { return e.start(ctx, d.opts) })
}

func (e *engine) start(ctx context.Context, opts Options) (err error) {
	if e.guest, err = guestagent.Find(); err != nil {
		return err
	}
	if e.socket, err = opts.address(); err != nil {
		return err
	}
	if e.api, err = connect(e.socket); err != nil {
		return err
	}
	if e.daemon, err = examine(ctx, e.api, e.socket, opts.Runtime); err != nil {
		return err
	}
	e.Fleet.Logger = opts.Logger
	return e.Furnish(opts.RunDir, opts.Images, func(runDir string) (int, error) { return reap(ctx, e.api, runDir) })
}

// examine asks the daemon whether it can make sandboxes. Errors: Unavailable.
func examine(ctx context.Context, api *client.Client, socket, runtime string) (system.Info, error) {
	if err := ping(ctx, api, socket); err != nil {
		return system.Info{}, err
	}
	answer, err := api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return system.Info{}, explain(err)
	}
	info := answer.Info
	refuse := func(reason, remedy string) (system.Info, error) {
		return info, &sandbox.Error{Class: sandbox.Unavailable, Reason: reason, Remedy: remedy}
	}
	if info.OSType != "linux" {
		return refuse(fmt.Sprintf("the daemon runs containers of %q, not of Linux", info.OSType), "")
	}
	if _, known := info.Runtimes[runtime]; runtime != "" && !known {
		return refuse(fmt.Sprintf("the daemon knows no runtime %.40q", runtime), "add it to the daemon's configuration (runtimes in /etc/docker/daemon.json)")
	}
	return info, nil
}

// Close implements sandbox.Closer.
func (d *Driver) Close(ctx context.Context) error { return d.engine.Close(ctx) }
