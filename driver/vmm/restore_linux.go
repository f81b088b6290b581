package vmm

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
		return nil, fmt.Errorf("%s: restore: %w", d.system.Name, err)
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
	e, err := d.open(ctx)
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
	return e.restore(ctx, dir, spec, m)
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
	if m.System != e.system.Name {
		return asked, &sandbox.Error{Class: sandbox.Invalid, Field: "snapshot", Reason: fmt.Sprintf("it was made by %.40q", m.System)}
	}
	if m.Hardware.Emulated != e.emulated {
		how := map[bool]string{true: "without KVM", false: "with KVM"}
		return asked, &sandbox.Error{Class: sandbox.Unavailable, Field: "snapshot",
			Reason: "it was made " + how[m.Hardware.Emulated] + ", and machines run " + how[e.emulated] + " here"}
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

// restore makes a machine out of the state in dir.
func (e *engine) restore(ctx context.Context, dir string, spec sandbox.Spec, from manifest) (*instance, error) {
	disk, err := os.Open(filepath.Join(dir, diskFile))
	if err != nil {
		return nil, err
	}
	saved, err := openAll(dir, e.system.SavedFiles)
	if err != nil {
		return nil, errors.Join(err, disk.Close())
	}
	defer closeAll(saved)
	m := e.newMachine(spec, from.Hardware, disk)
	return m.start(ctx, beginning{
		fill: func(place workplace) error { return shareSaved(place, saved) },
		begin: func(ctx context.Context) error {
			return releases(from.Release, e.program.version, m.place.load(ctx, m))
		},
		greet: m.wake,
	})
}

func openAll(dir string, names []string) (files []*os.File, err error) {
	for _, name := range names {
		file, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			closeAll(files)
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

func shareSaved(place workplace, files []*os.File) error {
	for _, file := range files {
		if err := place.share(file, filepath.Join(Saved, filepath.Base(file.Name()))); err != nil {
			return err
		}
	}
	return nil
}

// releases adds what most likely is the matter.
func releases(made, now string, err error) error {
	if err == nil || made == now {
		return err
	}
	return fmt.Errorf("it was made with release %.40q, and this is %s: %w", made, now, err)
}
