package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"aether/driver/guestagent"
	"aether/driver/lifetime"
	"aether/sandbox"
)

// SnapshotFidelity implements sandbox.Snapshotter.
func (i *instance) SnapshotFidelity() sandbox.Fidelity { return sandbox.Checkpoint }

// Snapshot implements sandbox.Snapshotter. The sandbox stands still meanwhile.
func (i *instance) Snapshot(ctx context.Context, dir string, keep sandbox.Fidelity) error {
	err := guestagent.FilesOrMemory(Name, keep)
	if err == nil {
		err = i.saveTo(ctx, dir, partsOf(keep))
	}
	if err == nil {
		err = guestagent.Sync(dir)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: snapshot %s: %w", Name, i.ID(), err), clearDir(dir))
	}
	return nil
}

// saveTo is a snapshot that need not be on disk. A failure leaves something in dir.
func (i *instance) saveTo(ctx context.Context, dir string, parts []part) error {
	i.verbs.Lock()
	defer i.verbs.Unlock()
	m := i.manifest()
	if !slices.ContainsFunc(parts, func(p part) bool { return p.dir == memory.dir }) {
		m.Authority = nil // nothing of it has read a certificate
	}
	if err := i.still(ctx, len(parts) > 1, func() error { return i.saveParts(ctx, dir, parts, m) }); err != nil {
		return err
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestFile), text, 0o600)
}

// still has all parts of a snapshot be of one instant. One part alone is: runsc stops
// the sandbox while it writes that.
func (i *instance) still(ctx context.Context, several bool, save func() error) error {
	if !several || i.Paused() {
		return save()
	}
	if err := i.setPausedLocked(ctx, true, "pause"); err != nil {
		return err
	}
	err := save()
	// Whatever became of the caller: the sandbox goes on.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifetime.CleanupTime)
	defer cancel()
	if resumed := i.setPausedLocked(ctx, false, "resume"); err == nil {
		err = resumed
	}
	return err
}

func (i *instance) saveParts(ctx context.Context, dir string, parts []part, m manifest) (err error) {
	for _, p := range parts {
		if err := i.save(ctx, filepath.Join(dir, p.dir), p); err != nil {
			return err
		}
		if m.Sizes[p.dir], err = p.sizes(dir); err != nil {
			return err
		}
	}
	return nil
}

// save has runsc write to a directory that is the sandbox's while it does, and
// afterwards this program's.
func (i *instance) save(ctx context.Context, dir string, p part) error {
	uid, gid, err := i.Owner()
	if err != nil {
		return errors.Join(i.Alive(), err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Chown(uid, gid); err != nil {
		return err
	}
	args := append([]string{"--root", stateDir(i.StageDir())}, p.command...)
	err = i.Enter(ctx, []*os.File{file}, append(args, "--leave-running", "--image-path=/proc/self/fd/3", i.ID())...)
	return errors.Join(err, p.takeBack(dir))
}

func (p part) takeBack(dir string) error {
	err := os.Chown(dir, os.Geteuid(), os.Getegid())
	for _, name := range p.names {
		path := filepath.Join(dir, name)
		if _, missing := os.Lstat(path); missing != nil {
			continue // it came to nothing
		}
		err = errors.Join(err, os.Lchown(path, os.Geteuid(), os.Getegid()), os.Chmod(path, 0o600))
	}
	return err
}

func clearDir(dir string) (err error) {
	for _, p := range []part{files, memory} {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, p.dir)))
	}
	if removed := os.Remove(filepath.Join(dir, manifestFile)); !errors.Is(removed, os.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}
