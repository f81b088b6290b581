package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"aether/guest/channel"
	"aether/guest/pid1"
	"aether/internal/host/launch"
	"aether/sandbox"
)

var errDiskBuiltIn = &sandbox.Error{Class: sandbox.Unsupported, Reason: "this kernel has the disk's driver built in, so it looks for the disk before it is known"}

// makeTemplate boots a machine that is nobody's and saves it. Its directory has
// its name when it is whole.
func (e *engine) makeTemplate(ctx context.Context, dir string, b bootable, of mold) error {
	guest, err := e.boots.get(ctx, b)
	if err != nil {
		return err
	}
	modules, held := withoutDisk(guest.Modules)
	if len(held) == 0 {
		return errDiskBuiltIn
	}
	l, err := e.bootLaunch(ctx, b, guest, pid1.Config{Channel: guestChannel, Machine: &pid1.Machine{Modules: modules, Awaits: true, Held: held}})
	if err != nil {
		return err
	}
	defer l.closeBoot()
	work := filepath.Join(e.opts.templateWork(), filepath.Base(dir))
	err = os.Mkdir(work, 0o700)
	if err == nil {
		err = e.saveTemplate(ctx, l, work, of)
	}
	if err == nil {
		err = os.Rename(work, dir)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(work))
	}
	return e.prune(of.HostBoot)
}

func (e *engine) saveTemplate(ctx context.Context, l invocation, dir string, of mold) (err error) {
	if l.memory, err = launch.MemoryFile("template", of.Hardware.MemoryMiB*mebibyte); err != nil {
		return err
	}
	defer l.memory.Close()
	if err := e.bootTemplate(ctx, l, of.Hardware, filepath.Join(dir, stateFile)); err != nil {
		return fmt.Errorf("make a template: %w", err)
	}
	if err := saveMemory(ctx, l.memory, filepath.Join(dir, memoryFile)); err != nil {
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
func (e *engine) bootTemplate(ctx context.Context, l invocation, hw hardwareOf, state string) error {
	leave, err := e.fleet.Enter(Name)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	m := e.newMachine(sandbox.Spec{}, hw, nil)
	if err := m.freeze(ctx, l, state); err != nil {
		return m.abandon(ctx, err)
	}
	return m.release(ctx)
}

func (m *machine) freeze(ctx context.Context, l invocation, state string) error {
	if err := m.launch(ctx, l); err != nil {
		return err
	}
	if err := channel.Await(ctx, m.wires.channel); err != nil {
		return err
	}
	if err := m.monitor.Call(ctx, "stop", nil, nil); err != nil {
		return err
	}
	if err := m.leaveMemory(ctx, true); err != nil {
		return err
	}
	file, err := os.OpenFile(state, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(m.migrate(ctx, file), file.Close())
}
