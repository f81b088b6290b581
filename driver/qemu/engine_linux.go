package qemu

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"

	"aether/driver/guestagent"
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

// program is the emulator of this host's architecture; there is one for each.
const program = "qemu-system-x86_64"

// engine is what a program that makes machines holds as long as it lives.
type engine struct {
	opts Options

	once    sync.Once
	err     error
	program string
	accel   accel
	images  *image.Store
	disks   *disk.Store
	// groups is nil, and unlimited says why, where there are none.
	groups    *cgroup.Owner
	hierarchy *cgroup.Hierarchy
	unlimited error
	count     atomic.Uint64

	boots     boots
	templates templates

	fleet guestagent.Fleet
}

// open gets the engine ready at the first need of it.
func (d *Driver) open() (*engine, error) {
	e := &d.engine
	e.once.Do(func() {
		e.opts = d.opts
		e.accel = d.accel()
		e.err = e.start()
	})
	return e, e.err
}

func (e *engine) start() (err error) {
	if e.program, err = findProgram(e.opts.Program); err != nil {
		return err
	}
	for _, dir := range append(e.opts.workDirs(), e.opts.StateDir, e.opts.RunDir, e.opts.kernelDir(), e.opts.templateDir()) {
		if err := storedir.Prepare(dir); err != nil {
			return fmt.Errorf("%s: %w", Name, err)
		}
	}
	if _, err := reap(context.Background(), e.opts); err != nil {
		return fmt.Errorf("%s: remove what a dead program left: %w", Name, err)
	}
	if e.images, err = e.opts.Images(); err != nil {
		return err
	}
	if e.disks, err = disk.Open(filepath.Join(e.opts.StateDir, "disks")); err != nil {
		return err
	}
	return e.openGroups()
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

func findProgram(named string) (string, error) {
	if named == "" {
		named = program
	}
	found, err := exec.LookPath(named)
	if err != nil {
		return "", &sandbox.Error{Class: sandbox.Unavailable, Op: Name, Reason: named + " is not installed", Remedy: "apt install qemu-system-x86"}
	}
	return found, nil
}

func (o Options) kernelDir() string    { return filepath.Join(o.StateDir, "vmlinux") }
func (o Options) forkDir() string      { return filepath.Join(o.StateDir, "forks") }
func (o Options) templateDir() string  { return filepath.Join(o.StateDir, "templates") }
func (o Options) templateWork() string { return filepath.Join(o.templateDir(), "work") }

// workDirs are where a program that is killed leaves what is half made.
func (o Options) workDirs() []string { return []string{o.forkDir(), o.templateWork()} }

var errClosed = &sandbox.Error{Class: sandbox.Conflict, Op: Name, Reason: "the driver is closed"}

// Close ends every machine of the driver. It is idempotent, and no machine can be
// made afterwards.
func (d *Driver) Close(ctx context.Context) error {
	e := &d.engine
	e.once.Do(func() { e.err = errClosed })
	first, err := e.fleet.Close(ctx)
	if first {
		err = errors.Join(err, e.templates.close())
	}
	if first && e.groups != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), guestagent.CleanupTime)
		defer cancel()
		err = errors.Join(err, e.groups.Close(ctx))
	}
	return err
}

// Reap implements sandbox.Reaper: what the kernel does not remove when a program
// is killed are its cgroups and half-made forks and templates.
func (d *Driver) Reap(ctx context.Context) (int, error) {
	for _, dir := range append(d.opts.workDirs(), d.opts.RunDir) {
		if err := storedir.Prepare(dir); err != nil {
			return 0, err
		}
	}
	return reap(ctx, d.opts)
}

func reap(ctx context.Context, opts Options) (int, error) {
	count, err := cgroup.Reap(ctx, opts.RunDir)
	if err != nil {
		return count, err
	}
	for _, dir := range opts.workDirs() {
		n, err := reapWork(dir)
		if count += n; err != nil {
			return count, err
		}
	}
	return count, nil
}
