package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"aether/driver/guestagent"
	"aether/sandbox"
)

// A snapshot is a directory with a manifest and, below, the files that runsc
// wrote.
const (
	manifestFile  = guestagent.ManifestFile
	checkpointDir = "checkpoint"
)

// checkpointFiles are the kernel's state, the list of its pages and the pages.
var checkpointFiles = []string{"checkpoint.img", "pages_meta.img", "pages.img"}

// manifest is what a sandbox must be like to go on from a snapshot.
type manifest struct {
	Version  int    `json:"version"`
	Image    string `json:"image"`
	Digest   string `json:"digest"`
	Hostname string `json:"hostname"`
	// Limits but that on processors are held by gVisor's kernel, which the
	// snapshot is of.
	Limits   sandbox.Limits  `json:"limits,omitzero"`
	Network  sandbox.Network `json:"network,omitzero"`
	Mounts   []sandbox.Mount `json:"mounts,omitempty"`
	Platform Platform        `json:"platform"`
	// Sizes are those of checkpointFiles, to tell a damaged snapshot.
	Sizes []int64 `json:"sizes"`
}

const manifestVersion = 1

func (i *instance) manifest() manifest {
	spec := i.Spec()
	return manifest{Version: manifestVersion, Image: spec.Image, Digest: i.Digest(), Hostname: i.hostname,
		Limits: spec.Limits, Network: spec.Network, Mounts: spec.Mounts, Platform: i.driver.opts.Platform}
}

// SnapshotFidelity implements sandbox.Snapshotter.
func (i *instance) SnapshotFidelity() sandbox.Fidelity { return sandbox.Checkpoint }

// Snapshot implements sandbox.Snapshotter. The sandbox stands still meanwhile.
func (i *instance) Snapshot(ctx context.Context, dir string, keep sandbox.Fidelity) error {
	if err := guestagent.OnlyMemory(Name, keep); err != nil {
		return fmt.Errorf("%s: snapshot %s: %w", Name, i.ID(), err)
	}
	err := i.saveTo(ctx, dir)
	if err == nil {
		err = guestagent.Sync(dir)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: snapshot %s: %w", Name, i.ID(), err), clearDir(dir))
	}
	return nil
}

// saveTo is a snapshot that need not be on disk. A failure leaves something in dir.
func (i *instance) saveTo(ctx context.Context, dir string) error {
	i.verbs.Lock()
	defer i.verbs.Unlock()
	to := filepath.Join(dir, checkpointDir)
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	if err := i.checkpoint(ctx, to); err != nil {
		return err
	}
	m := i.manifest()
	for _, name := range checkpointFiles {
		info, err := os.Stat(filepath.Join(to, name))
		if err != nil {
			return err
		}
		m.Sizes = append(m.Sizes, info.Size())
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestFile), text, 0o600)
}

// checkpoint has runsc write to a directory that is the sandbox's while it does,
// and afterwards this program's.
func (i *instance) checkpoint(ctx context.Context, dir string) error {
	uid, gid, err := i.Owner()
	if err != nil {
		return errors.Join(i.Alive(), err)
	}
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Chown(uid, gid); err != nil {
		return err
	}
	err = i.Enter(ctx, []*os.File{file}, "--root", stateDir(i.StageDir()), "checkpoint", "--leave-running", "--compression=none", "--image-path=/proc/self/fd/3", i.ID())
	return errors.Join(err, takeBack(dir))
}

func takeBack(dir string) error {
	err := os.Chown(dir, os.Geteuid(), os.Getegid())
	for _, name := range checkpointFiles {
		path := filepath.Join(dir, name)
		if _, missing := os.Lstat(path); missing != nil {
			continue // it came to nothing
		}
		err = errors.Join(err, os.Lchown(path, os.Geteuid(), os.Getegid()), os.Chmod(path, 0o600))
	}
	return err
}

func clearDir(dir string) error {
	err := os.RemoveAll(filepath.Join(dir, checkpointDir))
	if removed := os.Remove(filepath.Join(dir, manifestFile)); !errors.Is(removed, os.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}
