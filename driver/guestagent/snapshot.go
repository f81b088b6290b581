package guestagent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"aether/sandbox"
)

// ManifestFile is what a driver has written of a snapshot, in the snapshot's
// directory.
const ManifestFile = "manifest.json"

// maxManifest bounds what is read of it, most of which are variables of commands.
const maxManifest = 64 << 20

// ReadManifest reads the manifest of a snapshot. Errors: NotFound where there is none,
// Invalid for one that is not valid.
func ReadManifest[M any](dir string, valid func(M) bool) (m M, err error) {
	file, err := os.Open(filepath.Join(dir, ManifestFile))
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
	if err := json.Unmarshal(text, &m); err != nil || !valid(m) {
		return m, &sandbox.Error{Class: sandbox.Invalid, Field: "snapshot", Reason: "it was not made by this driver", Err: err}
	}
	return m, nil
}

// FilesOrMemory refuses what neither are files nor memory with them. Errors: Unsupported.
func FilesOrMemory(system string, f sandbox.Fidelity) error {
	if f == sandbox.Filesystem || f == sandbox.Checkpoint {
		return nil
	}
	return &sandbox.Error{Class: sandbox.Unsupported, Field: "fidelity", Remedy: "ask for files (filesystem), or for memory too (checkpoint)",
		Reason: fmt.Sprintf("snapshots of %s cannot be of fidelity %q", system, f)}
}

// Sync has everything in the directory of a snapshot be on disk.
func Sync(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(file.Sync(), file.Close())
	})
}

// Kept is a limit that a snapshot holds itself.
type Kept struct {
	Field      string
	Asked, Has int64
}

// Unchanged refuses limits that are not those of the snapshot; zero asks for nothing.
// Errors: Unsupported.
func Unchanged(list ...Kept) error {
	for _, l := range list {
		if l.Asked > 0 && l.Asked != l.Has {
			return &sandbox.Error{Class: sandbox.Unsupported, Field: l.Field,
				Reason: fmt.Sprintf("a snapshot's limit cannot change from %d to %d", l.Has, l.Asked), Remedy: "leave it out"}
		}
	}
	return nil
}
