package command

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"

	"aether/driver/guestagent"
	"aether/driver/lifetime"
	"aether/image"
	"aether/image/overlay"
	"aether/internal/host/cgroup"
	"aether/internal/host/launch"
	"aether/internal/host/storedir"
	"aether/network"
	"aether/sandbox"
)

var (
	_ sandbox.Closer = (*Driver)(nil)
	_ sandbox.Reaper = (*Driver)(nil)
)

// engine is what a program that makes sandboxes holds as long as it lives.
type engine struct {
	system System
	once   sync.Once
	err    error
	tools  tools
	copy   sealedCopy
	guest  string // aether-guest
	host   *launch.Host
	images *image.Store
	bare   overlay.Bare
	groups *groups
	fleet  guestagent.Fleet

	network *network.Service
}

// open gets the engine ready at the first need of it.
func (d *Driver) open() (*engine, error) {
	e := &d.engine
	e.once.Do(func() {
		e.system = d.system
		if err := e.start(d.opts); err != nil {
			e.err = fmt.Errorf("%s: %w", d.system.Name, err)
		}
	})
	return e, e.err
}

func (e *engine) start(opts Options) (err error) {
	e.fleet.Logger, e.network = opts.Logger, opts.Network
	if e.system.Needs != nil {
		if err := e.system.Needs(); err != nil {
			return err
		}
	}
	if e.tools, err = findTools(e.system); err != nil {
		return err
	}
	if e.guest, err = guestagent.Find(); err != nil {
		return err
	}
	if err := storedir.Prepare(opts.RunDir); err != nil {
		return err
	}
	if e.bare, err = overlay.MakeBare(filepath.Join(opts.RunDir, "bare")); err != nil {
		return err
	}
	if opts.Images != nil {
		if e.images, err = opts.Images(); err != nil {
			return err
		}
	}
	if e.host, err = launch.Open(opts.RunDir); err != nil {
		return explain(context.Background(), err)
	}
	if e.groups, err = openGroups(context.Background(), opts.RunDir); err != nil {
		return errors.Join(err, e.host.Close())
	}
	return nil
}

// tools are the programs of the host that are run, by their absolute paths.
type tools struct{ program, shell string }

func findTools(s System) (t tools, err error) {
	if t.program, err = s.find(); err != nil || s.Plain {
		return t, err
	}
	if t.shell, err = find("sh", "install a shell"); err != nil {
		return t, err
	}
	_, err = find("mount", "install the package mount")
	return t, err
}

func (s System) find() (string, error) {
	name := s.Program
	if s.Find != nil {
		if path := s.Find(); path != "" {
			name = path
		}
	}
	return find(name, s.Install)
}

func find(name, remedy string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", &sandbox.Error{Class: sandbox.Unavailable, Reason: "the program " + name + " is not in PATH", Remedy: remedy, Err: err}
	}
	return filepath.Abs(path)
}

// Close implements sandbox.Closer.
func (d *Driver) Close(ctx context.Context) error {
	e := &d.engine
	e.once.Do(func() {
		e.err = &sandbox.Error{Class: sandbox.Conflict, Op: d.system.Name, Reason: "the driver is closed"}
	})
	first, err := e.fleet.Close(ctx)
	if !first || e.groups == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifetime.CleanupTime)
	defer cancel()
	return errors.Join(err, e.host.Close(), e.groups.close(ctx), e.copy.close())
}

// Reap implements sandbox.Reaper: when a program is killed the kernel ends its
// sandboxes, and their cgroups are left.
func (d *Driver) Reap(ctx context.Context) (int, error) {
	return cgroup.Reap(ctx, d.opts.RunDir)
}
