package vmm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"aether/driver/guestagent"
	"aether/sandbox"
)

// RestoreFidelity implements sandbox.Restorer.
func (d *Driver) RestoreFidelity() sandbox.Fidelity { return sandbox.Checkpoint }

// Restore implements sandbox.Restorer. A snapshot has the disk of its image, so that it
// does not matter what that is now.
func (d *Driver) Restore(ctx context.Context, dir string, give sandbox.Fidelity, spec sandbox.Spec) (sandbox.Instance, error) {
	i, err := d.restore(ctx, dir, give, spec)
	if err != nil {
		return nil, fmt.Errorf("%s: restore: %w", d.system.Name, err)
	}
	return i, nil
}

func (d *Driver) restore(ctx context.Context, dir string, give sandbox.Fidelity, spec sandbox.Spec) (*instance, error) {
	if err := guestagent.FilesOrMemory(d.system.Name, give); err != nil {
		return nil, err
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	e, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	m, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	if give == sandbox.Filesystem {
		return e.beginWith(ctx, dir, spec, m)
	}
	if spec.Image != "" {
		return nil, sandbox.Invalidf("image", "a snapshot has its own")
	}
	if m.FilesOnly {
		return nil, &sandbox.Error{Class: sandbox.Conflict, Field: "fidelity", Reason: "the snapshot has files only, and no memory",
			Remedy: "restore its files (filesystem)"}
	}
	if spec.Limits, err = e.fit(m, spec.Limits); err != nil {
		return nil, err
	}
	if err := e.accepts(ctx, spec); err != nil {
		return nil, err
	}
	return e.restore(ctx, dir, spec, m)
}

func readManifest(dir string) (manifest, error) {
	return guestagent.ReadManifest(dir, func(m manifest) bool {
		return m.Version == manifestVersion && m.Hardware.CPUs >= 1 && m.Hardware.MemoryMiB >= 1
	})
}

// of refuses a snapshot of another system. Errors: Invalid.
func (m manifest) of(s System) error {
	if m.System == s.Name {
		return nil
	}
	return &sandbox.Error{Class: sandbox.Invalid, Field: "snapshot", Reason: fmt.Sprintf("it was made by %.40q", m.System)}
}

// fit gives the limits of a machine that goes on from a snapshot: those that the
// guest itself holds are as they were.
func (e *engine) fit(m manifest, asked sandbox.Limits) (sandbox.Limits, error) {
	if err := m.of(e.system); err != nil {
		return asked, err
	}
	if m.Hardware.Emulated != e.emulated {
		how := map[bool]string{true: "without KVM", false: "with KVM"}
		return asked, &sandbox.Error{Class: sandbox.Unavailable, Field: "snapshot",
			Reason: "it was made " + how[m.Hardware.Emulated] + ", and machines run " + how[e.emulated] + " here"}
	}
	if err := guestagent.RefusesRates(e.system.Name, asked); err != nil {
		return asked, err
	}
	limits := m.Limits
	if asked.CPUs > 0 {
		limits.CPUs = asked.CPUs
	}
	return limits, guestagent.Unchanged(
		guestagent.Kept{Field: "limits.memory", Asked: asked.MemoryBytes / mebibyte, Has: m.Hardware.MemoryMiB},
		guestagent.Kept{Field: "limits.processes", Asked: asked.Processes, Has: m.Limits.Processes},
		guestagent.Kept{Field: "limits.disk", Asked: asked.DiskBytes, Has: m.Limits.DiskBytes},
		guestagent.Kept{Field: "limits.disk_backed", Asked: truth(asked.DiskBacked), Has: truth(m.Limits.DiskBacked)},
		guestagent.Kept{Field: "limits.cpus", Asked: int64(processors(limits.CPUs)), Has: int64(m.Hardware.CPUs)})
}

func truth(is bool) int64 {
	if is {
		return 1
	}
	return 0
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
	m := e.newMachine(spec, from.Hardware, from.Origin, disk)
	if from.Limits.DiskBacked {
		if m.writable, err = e.openWritable(filepath.Join(dir, writableFile)); err != nil {
			return nil, errors.Join(err, disk.Close())
		}
	}
	if from.BaseSum != nil {
		if err := m.openBase(filepath.Join(dir, baseFile), *from.BaseSum); err != nil {
			m.closeFiles()
			return nil, errors.Join(err, disk.Close())
		}
	}
	return m.start(ctx, beginning{
		fill: func(place workplace) error { return shareSaved(place, saved) },
		begin: func(ctx context.Context) error {
			return releases(from.Release, e.program.version, m.place.load(ctx, m))
		},
		greet: func(ctx context.Context) error { return m.becomeOther(ctx, from) },
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
