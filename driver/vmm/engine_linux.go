package vmm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"

	"aether/driver/guestagent"
	"aether/driver/lifetime"
	"aether/image"
	"aether/image/disk"
	"aether/internal/host/cgroup"
	"aether/internal/host/storedir"
	"aether/sandbox"
)

var (
	_ sandbox.Closer   = (*Driver)(nil)
	_ sandbox.Reaper   = (*Driver)(nil)
	_ sandbox.Restorer = (*Driver)(nil)
)

// engine is what a program that makes machines holds as long as it lives.
type engine struct {
	system System
	opts   Options

	// mu is held while the engine is made ready, which is tried again after a
	// failure: what was missing may have come, or a host's load gone.
	mu    sync.Mutex
	ready bool
	over  bool // closed before it was needed

	program  program
	emulated bool // for all machines
	images   *image.Store
	disks    *disk.Store
	// groups is nil, and unlimited says why, where there are none.
	groups    *cgroup.Owner
	hierarchy *cgroup.Hierarchy
	unlimited error
	count     atomic.Uint64

	boots     boots
	blanks    sync.Mutex // held while a blank disk is made
	templates templates
	warm      warmPool
	fleet     guestagent.Fleet
}

var errClosed = &sandbox.Error{Class: sandbox.Conflict, Reason: "the driver is closed"}

// open gets the engine ready at the first need of it.
func (d *Driver) open(ctx context.Context) (*engine, error) {
	e := &d.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.ready:
		return e, nil
	case e.over:
		return nil, errClosed
	}
	e.system, e.opts = d.system, d.opts
	e.fleet.Logger = d.opts.Logger
	err := e.start(ctx)
	e.ready = err == nil
	return e, err
}

func (e *engine) start(ctx context.Context) (err error) {
	if e.opts.StateDir, err = filepath.Abs(e.opts.StateDir); err != nil {
		return err
	}
	if e.program, err = e.findProgram(ctx); err != nil {
		return err
	}
	if err := e.system.needKVM(); err != nil {
		return err
	}
	e.emulated = e.system.emulated()
	for _, dir := range append([]string{e.opts.StateDir, e.opts.RunDir, kernelsDir(e.opts), layersDir(e.opts)}, placesOf(e.opts)...) {
		if err := storedir.Prepare(dir); err != nil {
			return err
		}
	}
	if _, err := reap(ctx, e.opts); err != nil {
		return fmt.Errorf("remove what a dead program left: %w", err)
	}
	if e.images, err = e.opts.Images(); err != nil {
		return err
	}
	if e.disks, err = disk.Open(filepath.Join(e.opts.StateDir, "disks")); err != nil {
		return err
	}
	return e.openGroups()
}

func (e *engine) findProgram(ctx context.Context) (program, error) {
	if e.system.AnyVersion {
		return lookProgram(e.system, e.opts.Program)
	}
	return findProgram(ctx, e.system, e.opts.Program, openTime)
}

// openGroups does without where the host has none: only some limits need them.
func (e *engine) openGroups() (err error) {
	if e.hierarchy, err = cgroup.Detect(); err == nil {
		e.groups, err = e.hierarchy.Own(e.opts.RunDir)
	}
	if sandbox.ClassOf(err) == sandbox.Unavailable {
		e.unlimited, err = err, nil
	}
	return err
}

// Close ends every machine of the driver. It is idempotent, and no machine can be
// made afterwards.
func (d *Driver) Close(ctx context.Context) error {
	e := &d.engine
	e.mu.Lock()
	e.over = true
	e.mu.Unlock()
	first, err := e.fleet.Close(ctx)
	if first {
		err = errors.Join(err, e.templates.close(), e.warm.close(ctx))
	}
	if first && e.groups != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifetime.CleanupTime)
		defer cancel()
		err = errors.Join(err, e.groups.Close(ctx))
	}
	return err
}

// Reap implements sandbox.Reaper: what the kernel does not remove when a program
// is killed are its cgroups, with monitors that did not notice, and directories.
func (d *Driver) Reap(ctx context.Context) (int, error) {
	for _, dir := range append(placesOf(d.opts), d.opts.RunDir) {
		if err := storedir.Prepare(dir); err != nil {
			return 0, err
		}
	}
	return reap(ctx, d.opts)
}

// reap ends processes before it removes the directories that they work in.
func reap(ctx context.Context, opts Options) (int, error) {
	count, err := cgroup.Reap(ctx, opts.RunDir)
	for _, dir := range placesOf(opts) {
		if err != nil {
			return count, err
		}
		var more int
		more, err = storedir.ReapScratch(dir)
		count += more
	}
	return count, err
}
