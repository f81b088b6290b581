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
	"time"

	"aether/driver/guestagent"
	"aether/sandbox"
)

// Files of a snapshot.
const (
	stateFile    = "state"
	diskFile     = "disk"
	manifestFile = "manifest.json"
)

// manifest is what a machine must be like to go on from a snapshot.
type manifest struct {
	Version  int        `json:"version"`
	Hardware hardwareOf `json:"hardware"`
	// Accel and CPU must be what they were: the state is of that very processor.
	Accel string `json:"accel"`
	CPU   string `json:"cpu"`
	// Limits are held inside the guest, which the snapshot is of.
	Limits sandbox.Limits `json:"limits,omitzero"`
}

const manifestVersion = 1

func (e *engine) manifest(hw hardwareOf, limits sandbox.Limits) manifest {
	return manifest{Version: manifestVersion, Hardware: hw, Accel: e.accel.name, CPU: e.accel.cpu, Limits: limits}
}

// SnapshotFidelity implements sandbox.Snapshotter.
func (i *instance) SnapshotFidelity() sandbox.Fidelity { return sandbox.Checkpoint }

// Snapshot implements sandbox.Snapshotter. The machine stands still meanwhile.
func (i *instance) Snapshot(ctx context.Context, dir string) error {
	i.verbs.Lock()
	defer i.verbs.Unlock()
	if err := i.Alive(); err != nil {
		return err
	}
	if err := i.snapshot(ctx, dir); err != nil {
		return errors.Join(fmt.Errorf("%s: snapshot %s: %w", Name, i.ID(), i.ending(err)), clearDir(dir))
	}
	return nil
}

func (m *machine) snapshot(ctx context.Context, dir string) error {
	if !m.paused {
		if err := m.call(ctx, "stop"); err != nil {
			return err
		}
	}
	err := m.save(ctx, dir)
	if !m.paused {
		// Whatever became of the caller: the sandbox goes on.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), guestagent.CleanupTime)
		defer cancel()
		err = errors.Join(err, m.call(ctx, "cont"))
		if err == nil {
			err = m.wake(ctx)
		}
	}
	return err
}

func (m *machine) save(ctx context.Context, dir string) error {
	state, err := os.OpenFile(filepath.Join(dir, stateFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = m.migrate(ctx, state)
	if err = errors.Join(err, state.Close()); err != nil {
		return err
	}
	if err := linkOrCopy(m.disk, filepath.Join(dir, diskFile)); err != nil {
		return err
	}
	text, err := json.Marshal(m.engine.manifest(m.hardware, m.spec.Limits))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestFile), text, 0o600)
}

// migrate has QEMU write its state to a file, at any speed.
func (m *machine) migrate(ctx context.Context, to *os.File) error {
	const name = "state"
	if err := m.monitor.Call(ctx, "migrate-set-parameters", map[string]any{"max-bandwidth": int64(1) << 50}, nil); err != nil {
		return err
	}
	if err := m.monitor.CallFile(ctx, to, "getfd", map[string]any{"fdname": name}, nil); err != nil {
		return err
	}
	if err := m.monitor.Call(ctx, "migrate", map[string]any{"uri": "fd:" + name}, nil); err != nil {
		return err
	}
	err := m.awaitMigration(ctx)
	if ctx.Err() != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), guestagent.CleanupTime)
		defer cancel()
		err = errors.Join(err, m.monitor.Call(ctx, "migrate_cancel", nil, nil), m.awaitMigration(ctx))
	}
	return err
}

const pollTime = 5 * time.Millisecond

// awaitMigration waits until QEMU has written all, or has given up.
func (m *machine) awaitMigration(ctx context.Context) error {
	for {
		var info struct {
			Status string `json:"status"`
			Reason string `json:"error-desc"`
		}
		if err := m.monitor.Call(ctx, "query-migrate", nil, &info); err != nil {
			return err
		}
		switch info.Status {
		case "completed", "cancelled":
			return nil
		case "failed":
			return fmt.Errorf("QEMU could not write its state: %s", info.Reason)
		}
		if err := sleep(ctx, pollTime); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// linkOrCopy keeps a disk, which never changes, under another name: the store lets
// go of it when its image changes.
func linkOrCopy(disk *os.File, name string) error {
	info, err := disk.Stat()
	if err != nil {
		return err
	}
	if now, err := os.Stat(disk.Name()); err == nil && os.SameFile(now, info) && os.Link(disk.Name(), name) == nil {
		return nil
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	// A reader of its own: the descriptor's offset is shared with QEMU.
	_, err = io.Copy(file, io.NewSectionReader(disk, 0, info.Size()))
	return errors.Join(err, file.Close())
}

func clearDir(dir string) error {
	var err error
	for _, name := range []string{stateFile, diskFile, manifestFile} {
		if removed := os.Remove(filepath.Join(dir, name)); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return err
}
