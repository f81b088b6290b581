package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"aether/guest/inside"
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

	socket string
	api    *client.Client
	daemon system.Info
	guest  string // aether-guest
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
	if e.guest, err = inside.Find(); err != nil {
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
	if _, err := reapWith(ctx, e.api, e.runDir); err != nil {
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
func (d *Driver) Close(ctx context.Context) error {
	e := &d.engine
	first, err := e.fleet.Close(ctx)
	if !first || e.lock == nil {
		return err
	}
	return errors.Join(err, e.lock.Release())
}
