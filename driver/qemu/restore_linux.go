package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"aether/sandbox"
)

// maxManifest bounds what is read of a snapshot's description.
const maxManifest = 64 << 10

// RestoreFidelity implements sandbox.Restorer.
func (d *Driver) RestoreFidelity() sandbox.Fidelity { return sandbox.Checkpoint }

// Restore implements sandbox.Restorer.
func (d *Driver) Restore(ctx context.Context, dir string, spec sandbox.Spec) (sandbox.Instance, error) {
	i, err := d.restore(ctx, dir, spec)
	if err != nil {
		return nil, fmt.Errorf("%s: restore: %w", Name, err)
	}
	return i, nil
}

func (d *Driver) restore(ctx context.Context, dir string, spec sandbox.Spec) (*instance, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if spec.Image != "" {
		return nil, sandbox.Invalidf("image", "a snapshot has its own")
	}
	e, err := d.open()
	if err != nil {
		return nil, err
	}
	m, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	if spec.Limits, err = e.fit(m, spec.Limits); err != nil {
		return nil, err
	}
	if err := e.accepts(spec); err != nil {
		return nil, err
	}
	return e.restore(ctx, dir, spec, m.Hardware)
}

func readManifest(dir string) (m manifest, err error) {
	file, err := os.Open(filepath.Join(dir, manifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return m, &sandbox.Error{Class: sandbox.NotFound, Reason: "there is no snapshot in " + dir}
	}
	if err != nil {
		return m, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxManifest))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil || m.Version != manifestVersion || m.Hardware.CPUs < 1 || m.Hardware.MemoryMiB < 1 {
		return m, &sandbox.Error{Class: sandbox.Invalid, Field: "snapshot", Reason: "it was not made by this driver", Err: err}
	}
	return m, nil
}

// fit gives the limits of a machine that goes on from a snapshot: those that the
// guest itself holds are as they were.
func (e *engine) fit(m manifest, asked sandbox.Limits) (sandbox.Limits, error) {
	if m.Accel != e.accel.name || m.CPU != e.accel.cpu {
		return asked, &sandbox.Error{Class: sandbox.Unavailable, Field: "snapshot",
			Reason: fmt.Sprintf("it was made with %s, and this host runs machines with %s", m.Accel, e.accel.name)}
	}
	limits := m.Limits
	if asked.CPUs > 0 {
		limits.CPUs = asked.CPUs
	}
	for _, l := range []struct {
		field      string
		asked, has int64
	}{
		{"limits.memory", asked.MemoryBytes / mebibyte, m.Hardware.MemoryMiB},
		{"limits.processes", asked.Processes, m.Limits.Processes},
		{"limits.disk", asked.DiskBytes, m.Limits.DiskBytes},
		{"limits.cpus", int64(processors(limits.CPUs)), int64(m.Hardware.CPUs)},
	} {
		if l.asked > 0 && l.asked != l.has {
			return limits, &sandbox.Error{Class: sandbox.Unsupported, Field: l.field,
				Reason: fmt.Sprintf("a machine cannot change from %d to %d", l.has, l.asked), Remedy: "leave it out"}
		}
	}
	return limits, nil
}

func (e *engine) restore(ctx context.Context, dir string, spec sandbox.Spec, hw hardwareOf) (*instance, error) {
	disk, err := os.Open(filepath.Join(dir, diskFile))
	if err != nil {
		return nil, err
	}
	state, err := os.Open(filepath.Join(dir, stateFile))
	if err != nil {
		return nil, errors.Join(err, disk.Close())
	}
	defer state.Close()
	m := e.newMachine(spec, hw, disk)
	return m.start(ctx, beginning{invocation: invocation{state: state}, load: m.goOn, greet: m.wake})
}

// goOn waits until QEMU has read the state and lets the machine run.
func (m *machine) goOn(ctx context.Context) error {
	for {
		var info struct {
			Status string `json:"status"`
		}
		if err := m.monitor.Call(ctx, "query-status", nil, &info); err != nil {
			return err
		}
		if info.Status != "inmigrate" {
			return m.monitor.Call(ctx, "cont", nil, nil)
		}
		if err := sleep(ctx, pollTime); err != nil {
			return err
		}
	}
}
