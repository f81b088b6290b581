package vmm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"aether/driver/lifetime"
	"aether/guest/channel"
	"aether/guest/pid1"
	"aether/internal/host/launch"
	"aether/sandbox"
)

var errDiskBuiltIn = &sandbox.Error{Class: sandbox.Unsupported, Reason: "this kernel has the disk's driver built in, so it looks for the disk before it is known"}

// makeTemplate boots a machine that is nobody's and saves it. Its directory has
// its name when it is whole.
func (e *engine) makeTemplate(ctx context.Context, work, dir string, b bootable, of mold) error {
	guest, err := e.boots.get(ctx, b, e.system.Modules)
	if err != nil {
		return err
	}
	modules, held := withoutDisk(guest.Modules)
	if len(held) == 0 {
		return errDiskBuiltIn
	}
	files, err := e.bootFiles(ctx, b, guest, pid1.Config{Channel: e.system.channel(),
		Machine: &pid1.Machine{Modules: modules, Awaits: true, Held: held}})
	if err != nil {
		return err
	}
	defer files.kernel.Close()
	if err := e.saveTemplate(ctx, files, work, of); err != nil {
		return err
	}
	if err := os.Rename(work, dir); err != nil {
		return err
	}
	return e.prune(of.HostBoot)
}

func (e *engine) saveTemplate(ctx context.Context, files bootFiles, dir string, of mold) error {
	memory, err := launch.MemoryFile("template", of.Hardware.MemoryMiB*mebibyte)
	if err != nil {
		return err
	}
	defer memory.Close()
	m := e.newMachine(sandbox.Spec{}, of.Hardware, origin{}, nil)
	fill := func(place workplace) error { return errors.Join(files.give(place), place.share(memory, Memory)) }
	if err := m.bootTemplate(ctx, fill, filepath.Join(dir, stateFile)); err != nil {
		return fmt.Errorf("make a template: %w", err)
	}
	if err := saveMemory(ctx, memory, filepath.Join(dir, memoryFile)); err != nil {
		return err
	}
	text, err := json.Marshal(of)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestFile), text, 0o600)
}

// bootTemplate runs the machine until its guest waits, and saves all but its
// memory, which is in a file already.
func (m *machine) bootTemplate(ctx context.Context, fill func(workplace) error, state string) error {
	leave, err := m.engine.fleet.Enter(m.engine.system.Name)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	if err := m.freeze(ctx, fill, state); err != nil {
		return m.abandon(ctx, err)
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifetime.CleanupTime)
	defer cancel()
	return m.release(ending)
}

func (m *machine) freeze(ctx context.Context, fill func(workplace) error, state string) error {
	if err := m.launch(ctx, fill); err != nil {
		return err
	}
	if err := m.meet(ctx); err != nil {
		return err
	}
	m.stage = answering
	wires := m.place.(*wires) // of every system with templates
	if err := channel.Await(ctx, wires.port); err != nil {
		return err
	}
	if err := m.monitor.Pause(ctx); err != nil {
		return err
	}
	return wires.saveTo(ctx, m, state, true)
}

// diskModule is the driver of the disk. In a template it gets no disk, so that each
// machine that goes on from it finds its own.
const diskModule = "virtio_blk"

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
