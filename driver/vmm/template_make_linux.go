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
	m := e.newMachine(sandbox.Spec{}, of.Hardware, origin{}, nil)
	if err := m.bootTemplate(ctx, files, dir); err != nil {
		return fmt.Errorf("make a template: %w", err)
	}
	made := record{mold: of}
	if m.engine.system.Handed {
		sum, err := sumOf(filepath.Join(dir, memoryFile))
		if err != nil {
			return err
		}
		made.MemorySum = &sum
	}
	text, err := json.Marshal(made)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestFile), text, 0o600)
}

// bootTemplate runs the machine until its guest waits, and saves it in a directory.
func (m *machine) bootTemplate(ctx context.Context, files bootFiles, dir string) error {
	leave, err := m.engine.fleet.Enter(m.engine.system.Name)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	if err := m.freeze(ctx, files, dir); err != nil {
		return m.abandon(ctx, err)
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifetime.CleanupTime)
	defer cancel()
	return m.release(ending)
}

func (m *machine) freeze(ctx context.Context, files bootFiles, dir string) error {
	fill := func(place workplace) error { return errors.Join(files.give(place), m.giveMemory(place)) }
	if err := m.launch(ctx, fill); err != nil {
		return err
	}
	if err := m.meet(ctx); err != nil {
		return err
	}
	m.stage = answering
	if m.engine.system.Handed {
		return m.freezeCopy(ctx, dir)
	}
	wires := m.place.(*wires) // of every system with templates
	if err := channel.Await(ctx, wires.port); err != nil {
		return err
	}
	if err := m.monitor.Pause(ctx); err != nil {
		return err
	}
	if err := wires.saveTo(ctx, m, filepath.Join(dir, stateFile), State{WithoutMemory: true}); err != nil {
		return err
	}
	return saveMemory(ctx, m.memory[0], filepath.Join(dir, memoryFile))
}

// freezeCopy saves what a copy of the machine would go on from. There is nothing in its
// guest that would have to stand still for that.
func (m *machine) freezeCopy(ctx context.Context, dir string) error {
	var err error
	if m.disk, err = launch.SealedFile(Disk, make([]byte, noDisk)); err != nil {
		return err
	}
	if err := m.place.boot(ctx, m); err != nil {
		return err
	}
	if err := m.line.await(ctx, m.process.over); err != nil {
		return err
	}
	m.stage = reachable
	files, err := m.prepareCopy()
	if err != nil {
		return err
	}
	forker := m.monitor.(Forker) // of every system that is Handed
	said, err := forker.Fork(ctx, files.Copying)
	if err != nil {
		return errors.Join(err, files.close())
	}
	made, err := m.takeCopy(ctx, said, files)
	if err != nil {
		return err
	}
	defer made.close()
	if len(made.memory) != 1 {
		return fmt.Errorf("the memory of a machine that was never forked is in %d files", len(made.memory))
	}
	return errors.Join(saveMemory(ctx, made.memory[0], filepath.Join(dir, memoryFile)), saveMemory(ctx, made.state, filepath.Join(dir, stateFile)))
}

// noDisk is the size of the disk that a template has and never looks at.
const noDisk = 4 << 10

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
