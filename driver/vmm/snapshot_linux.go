package vmm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"aether/driver/guestagent"
	"aether/driver/lifetime"
	"aether/network"
	"aether/sandbox"
)

// Files of a snapshot, beside those that the monitor makes.
const (
	diskFile     = "disk"
	baseFile     = "base"
	filesFile    = "files.tar"
	manifestFile = guestagent.ManifestFile
)

// manifest is what a machine must be like to go on from a snapshot.
type manifest struct {
	Version int `json:"version"`
	// System wrote the state. Whether another release of it reads that, it knows
	// best itself.
	System   string   `json:"system"`
	Release  string   `json:"release"`
	Hardware Hardware `json:"hardware"`
	// Limits are held inside the guest, which the snapshot is of.
	Limits sandbox.Limits `json:"limits,omitzero"`
	// FilesOnly says that there is no state, and an archive of files in its place.
	FilesOnly bool `json:"files_only,omitempty"`
	// Authority is the key of its gateway's, which programs in memory may believe; nil for a
	// machine on no network.
	Authority network.AuthorityKey `json:"authority,omitempty"`
	Origin    origin               `json:"origin,omitzero"`
	// BaseSum is the checksum of memory that is in a file of its own; nil is that there is none.
	BaseSum *uint32 `json:"base_sum,omitempty"`
}

const manifestVersion = 1

func (m *machine) manifest() manifest {
	return manifest{Version: manifestVersion, System: m.engine.system.Name, Release: m.engine.program.version, Hardware: m.hardware,
		Limits: m.spec.Limits, Authority: m.network.AuthorityKey(), Origin: m.origin}
}

func (m manifest) write(dir string) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestFile), text, 0o600)
}

// SnapshotFidelity implements sandbox.Snapshotter.
func (i *instance) SnapshotFidelity() sandbox.Fidelity { return sandbox.Checkpoint }

// Snapshot implements sandbox.Snapshotter. The machine stands still meanwhile.
func (i *instance) Snapshot(ctx context.Context, dir string, keep sandbox.Fidelity) error {
	err := guestagent.FilesOrMemory(i.engine.system.Name, keep)
	if err == nil {
		_, err = i.saveTo(ctx, dir, keep)
	}
	if err == nil {
		err = guestagent.Sync(dir)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: snapshot %s: %w", i.engine.system.Name, i.ID(), err), i.engine.clear(dir))
	}
	return nil
}

// saveTo is a snapshot that need not be on disk, and gives how long the processors stood
// still for it. A failure leaves something in dir.
func (i *instance) saveTo(ctx context.Context, dir string, keep sandbox.Fidelity) (still time.Duration, err error) {
	i.verbs.Lock()
	defer i.verbs.Unlock()
	if err := i.Alive(); err != nil {
		return 0, err
	}
	if keep == sandbox.Filesystem {
		return 0, i.ending(i.keepFiles(ctx, dir))
	}
	still, err = i.snapshot(ctx, dir)
	return still, i.ending(err)
}

func (m *machine) snapshot(ctx context.Context, dir string) (still time.Duration, err error) {
	if err := m.standStill(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	if !m.paused {
		defer func() { err = errors.Join(err, m.letGo(ctx)) }()
		if err := m.stop(ctx); err != nil {
			return 0, err
		}
	}
	err = m.save(ctx, dir)
	if m.engine.system.CutsOff {
		m.line.cut()
		m.cut = true
	}
	if m.paused {
		return 0, err // it did anyway
	}
	// Whatever became of the caller: the sandbox goes on.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifetime.CleanupTime)
	defer cancel()
	err = errors.Join(err, m.monitor.Resume(ctx))
	still = time.Since(began)
	if err == nil {
		err = m.wake(ctx)
	}
	if err == nil {
		m.mendNetwork(ctx)
	}
	return still, err
}

// save keeps the disk too: the store lets go of it when its image changes.
func (m *machine) save(ctx context.Context, dir string) error {
	over, err := m.base.link(filepath.Join(dir, baseFile))
	if err != nil {
		return err
	}
	if err := m.place.save(ctx, m, dir, over); err != nil {
		return err
	}
	made := m.manifest()
	if over {
		made.BaseSum = &m.base.sum
	}
	return made.write(dir)
}

// clear removes what a snapshot that failed has left.
func (e *engine) clear(dir string) error {
	var err error
	for _, name := range append([]string{diskFile, baseFile, writableFile, filesFile, manifestFile}, e.system.SavedFiles...) {
		if removed := os.Remove(filepath.Join(dir, name)); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return err
}
