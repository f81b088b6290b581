package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"

	"aether/guest/inside"
	"aether/host/cgroup"
	"aether/host/storedir"
	"aether/image"
	"aether/image/disk"
	"aether/image/initramfs"
	"aether/image/kernel"
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

	boots boots

	fleet inside.Fleet
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
	for _, dir := range []string{e.opts.StateDir, e.opts.RunDir, e.kernelDir(), e.forkDir()} {
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

func (e *engine) kernelDir() string { return filepath.Join(e.opts.StateDir, "vmlinux") }
func (e *engine) forkDir() string   { return filepath.Join(e.opts.StateDir, "forks") }

// boots keeps what all machines of one kernel boot from.
type boots struct {
	mu     sync.Mutex
	kernel kernel.Kernel
	init   string
	stamp  int64
	guest  *initramfs.Guest
}

// bootable gives the kernel, opened, and the archive, made anew when the kernel
// or the init has changed.
func (e *engine) bootable(ctx context.Context) (*os.File, *initramfs.Guest, error) {
	k, err := kernel.Find(e.opts.Kernel)
	if err != nil {
		return nil, nil, err
	}
	init, err := e.opts.Guest()
	if err != nil {
		return nil, nil, err
	}
	guest, err := e.boots.get(ctx, k, init)
	if err != nil {
		return nil, nil, err
	}
	unpacked, err := k.OpenUnpacked(ctx, e.kernelDir())
	return unpacked, guest, err
}

func (b *boots) get(ctx context.Context, k kernel.Kernel, init string) (*initramfs.Guest, error) {
	info, err := os.Stat(init)
	if err != nil {
		return nil, &sandbox.Error{Class: sandbox.NotFound, Reason: "the init of machines cannot be read", Err: err}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	stamp := info.ModTime().UnixNano()
	if b.guest != nil && b.kernel == k && b.init == init && b.stamp == stamp {
		return b.guest, nil
	}
	guest, err := initramfs.Build(ctx, k, init, guestModules)
	if err != nil {
		return nil, err
	}
	b.kernel, b.init, b.stamp, b.guest = k, init, stamp, guest
	return guest, nil
}

// Close ends every machine of the driver. It is idempotent, and no machine can be
// made afterwards.
func (d *Driver) Close(ctx context.Context) error {
	e := &d.engine
	e.once.Do(func() { e.err = &sandbox.Error{Class: sandbox.Conflict, Op: Name, Reason: "the driver is closed"} })
	first, err := e.fleet.Close(ctx)
	if first && e.groups != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), inside.CleanupTime)
		defer cancel()
		err = errors.Join(err, e.groups.Close(ctx))
	}
	return err
}

// Reap implements sandbox.Reaper: what the kernel does not remove when a program
// is killed are its cgroups and half-made forks.
func (d *Driver) Reap(ctx context.Context) (int, error) {
	for _, dir := range []string{d.opts.RunDir, filepath.Join(d.opts.StateDir, "forks")} {
		if err := storedir.Prepare(dir); err != nil {
			return 0, err
		}
	}
	return reap(ctx, d.opts)
}

func reap(ctx context.Context, opts Options) (int, error) {
	groups, err := cgroup.Reap(ctx, opts.RunDir)
	if err != nil {
		return groups, err
	}
	forks, err := reapForks(filepath.Join(opts.StateDir, "forks"))
	return groups + forks, err
}
