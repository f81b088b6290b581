package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"aether/guest/pid1"
	"aether/image/initramfs"
	"aether/image/kernel"
	"aether/internal/host/launch"
	"aether/sandbox"
)

// bootable is what machines boot from.
type bootable struct {
	kernel kernel.Kernel
	init   string
	stamps [2]string // of the two, which change with their content
}

func (e *engine) bootable() (b bootable, err error) {
	if b.kernel, err = kernel.Find(e.opts.Kernel); err != nil {
		return b, err
	}
	if b.init, err = e.opts.Guest(); err != nil {
		return b, err
	}
	if b.stamps[0], err = stampOf(b.kernel.Image); err != nil {
		return b, err
	}
	if b.stamps[1], err = stampOf(b.init); err != nil {
		return b, &sandbox.Error{Class: sandbox.NotFound, Reason: "the init of machines cannot be read", Err: err}
	}
	return b, nil
}

// stampOf tells a file from every other, and from what it was before a change.
func stampOf(name string) (string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %d %d", name, info.Size(), info.ModTime().UnixNano()), nil
}

// boots keeps the archive that machines of one kernel share.
type boots struct {
	mu    sync.Mutex
	of    bootable
	guest *initramfs.Guest
}

// get makes the archive anew when the kernel or the init has changed.
func (b *boots) get(ctx context.Context, of bootable) (*initramfs.Guest, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.guest != nil && b.of == of {
		return b.guest, nil
	}
	guest, err := initramfs.Build(ctx, of.kernel, of.init, guestModules)
	if err != nil {
		return nil, err
	}
	b.of, b.guest = of, guest
	return guest, nil
}

// withoutDisk divides the modules into those that a template uses and those that
// have to wait for a disk. There are none of these where the kernel itself has the
// disk's driver, and then there is no template.
func withoutDisk(modules []string) (used, held []string) {
	at := slices.IndexFunc(modules, func(name string) bool { return strings.HasSuffix(name, "-"+diskModule+".ko") })
	if at < 0 {
		return modules, nil
	}
	return modules[:at], modules[at:]
}

// bootLaunch opens what a machine is booted from: the kernel itself, and an archive
// of what all machines share and what this one is told.
func (e *engine) bootLaunch(ctx context.Context, b bootable, guest *initramfs.Guest, c pid1.Config) (l invocation, err error) {
	text, err := json.Marshal(c)
	if err != nil {
		return l, err
	}
	own, err := initramfs.Config("aether.json", text)
	if err != nil {
		return l, err
	}
	if l.kernel, err = b.kernel.OpenUnpacked(ctx, e.opts.kernelDir()); err != nil {
		return l, err
	}
	if l.initramfs, err = launch.SealedFile("initramfs", guest.Archive, own); err != nil {
		return l, errors.Join(err, l.kernel.Close())
	}
	return l, nil
}

// closeBoot closes what bootLaunch opened.
func (l invocation) closeBoot() {
	l.kernel.Close()
	l.initramfs.Close()
}
