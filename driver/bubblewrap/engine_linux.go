package bubblewrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"aether/guest/inside"
	"aether/host/cgroup"
	"aether/host/launch"
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
	once   sync.Once
	err    error
	bwrap  string // the program
	guest  string // aether-guest
	host   *launch.Host
	images *image.Store
	bare   overlay.Bare
	groups *inside.Groups
	fleet  inside.Fleet
}

// open gets the engine ready at the first need of it.
func (d *Driver) open() (*engine, error) {
	e := &d.engine
	e.once.Do(func() { e.err = e.start(d.opts) })
	return e, e.err
}

func (e *engine) start(opts Options) (err error) {
	if e.bwrap, err = findProgram(); err != nil {
		return err
	}
	if e.guest, err = inside.Find(); err != nil {
		return fmt.Errorf("bubblewrap: %w", err)
	}
	if err := os.MkdirAll(opts.RunDir, 0o711); err != nil {
		return fmt.Errorf("bubblewrap: %w", err)
	}
	if e.bare, err = overlay.MakeBare(filepath.Join(opts.RunDir, "bare")); err != nil {
		return fmt.Errorf("bubblewrap: %w", err)
	}
	if opts.Images != nil {
		if e.images, err = opts.Images(); err != nil {
			return err
		}
	}
	if e.host, err = launch.Open(); err != nil {
		return fmt.Errorf("bubblewrap: %w", explain(err))
	}
	if e.groups, err = inside.OpenGroups(context.Background(), opts.RunDir); err != nil {
		return errors.Join(fmt.Errorf("bubblewrap: %w", err), e.host.Close())
	}
	return nil
}

func findProgram() (string, error) {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return "", &sandbox.Error{Class: sandbox.Unavailable, Op: Name, Reason: "the program bwrap is not in PATH",
			Remedy: "install the package bubblewrap", Err: err}
	}
	return filepath.Abs(path)
}

// Close implements sandbox.Closer.
func (d *Driver) Close(ctx context.Context) error {
	e := &d.engine
	e.once.Do(func() { e.err = &sandbox.Error{Class: sandbox.Conflict, Op: Name, Reason: "the driver is closed"} })
	first, err := e.fleet.Close(ctx)
	if !first || e.groups == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), inside.CleanupTime)
	defer cancel()
	return errors.Join(err, e.host.Close(), e.groups.Close(ctx))
}

// Reap implements sandbox.Reaper: when a program is killed the kernel ends its
// sandboxes, and their cgroups are left.
func (d *Driver) Reap(ctx context.Context) (int, error) {
	return cgroup.Reap(ctx, d.opts.RunDir)
}
