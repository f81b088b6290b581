package vmm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"aether/guest/pid1"
	"aether/image/initramfs"
	"aether/image/kernel"
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

// networkModules are for the device of machines on the network, and for ending the
// connections of those that go on elsewhere. A kernel without can do all the rest.
var networkModules = []string{"tun?", "tcp_diag?"}

// get makes the archive anew when the kernel or the init has changed.
func (b *boots) get(ctx context.Context, of bootable, modules []string) (*initramfs.Guest, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.guest != nil && b.of == of {
		return b.guest, nil
	}
	guest, err := initramfs.Build(ctx, of.kernel, of.init, slices.Concat(networkModules, modules))
	if err != nil {
		return nil, err
	}
	b.of, b.guest = of, guest
	return guest, nil
}

// bootFiles are what one machine boots from: the kernel itself, and an archive of
// what all machines share and what this one is told.
type bootFiles struct {
	kernel      *os.File
	shared, own []byte
}

func (e *engine) bootFiles(ctx context.Context, b bootable, guest *initramfs.Guest, c pid1.Config) (f bootFiles, err error) {
	text, err := json.Marshal(c)
	if err != nil {
		return f, err
	}
	f.shared = guest.Archive
	if f.own, err = initramfs.Config("aether.json", text); err != nil {
		return f, err
	}
	f.kernel, err = b.kernel.OpenUnpacked(ctx, kernelsDir(e.opts))
	return f, err
}

func (f bootFiles) give(place workplace) error {
	return errors.Join(place.share(f.kernel, Kernel), place.write(Initramfs, f.shared, f.own))
}
