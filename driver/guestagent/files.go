package guestagent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"aether/driver/lifetime"
	"aether/guest/pid1"
	"aether/sandbox"
)

// Drivers that keep no memory of a sandbox keep its files in one archive, which the guest
// service of a new sandbox puts into its root before anybody else can talk to it: ids and
// mounts are there as they are inside. The host never looks into it.

// FilesFile is the archive of a snapshot, beside its manifest.
const FilesFile = "files.tar"

const (
	// FilesTime bounds how long a guest may take to send its files or to take them.
	FilesTime = 10 * time.Minute
	// MaxFiles bounds what a guest may send, whose root has an image of any size.
	MaxFiles = 256 << 30
)

// FilesManifest is what a sandbox must be like to be given the files of a snapshot.
type FilesManifest struct {
	Version int                     `json:"version"`
	System  string                  `json:"system"`
	Image   string                  `json:"image"`
	Digest  string                  `json:"digest"`
	Command sandbox.CommandDefaults `json:"command,omitzero"`
	// Size is the archive's, to tell a damaged one.
	Size int64 `json:"size"`
}

const filesVersion = 1

// FilesOf is the manifest of a system's sandbox.
func FilesOf(system string, spec sandbox.Spec, digest string) FilesManifest {
	return FilesManifest{Version: filesVersion, System: system, Image: spec.Image, Digest: digest, Command: spec.Command}
}

// Keep writes a snapshot of fidelity keep to dir, where it is on disk afterwards; pack
// writes the archive. A failure leaves dir empty. Errors: Unsupported for memory.
func (m FilesManifest) Keep(dir string, keep sandbox.Fidelity, pack func(io.Writer) error) error {
	err := m.filesOnly(keep)
	if err == nil {
		err = m.write(dir, pack)
	}
	if err == nil {
		err = Sync(dir)
	}
	if err != nil {
		return errors.Join(err, clearFiles(dir))
	}
	return nil
}

// filesOnly refuses everything but files. Errors: Unsupported.
func (m FilesManifest) filesOnly(f sandbox.Fidelity) error {
	if f == sandbox.Filesystem {
		return nil
	}
	refusal := &sandbox.Error{Class: sandbox.Unsupported, Field: "fidelity", Reason: m.System + " keeps the files of a sandbox, not its memory",
		Remedy: "ask for files alone (filesystem), or use a driver that keeps memory (cell, gvisor, qemu-kvm)"}
	if f != sandbox.Checkpoint {
		refusal.Reason = fmt.Sprintf("snapshots of %s cannot be of fidelity %q", m.System, f)
	}
	return refusal
}

func (m FilesManifest) write(dir string, pack func(io.Writer) error) error {
	file, err := os.OpenFile(filepath.Join(dir, FilesFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(pack(file), file.Close()); err != nil {
		return err
	}
	info, err := os.Stat(file.Name())
	if err != nil {
		return err
	}
	m.Size = info.Size()
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, ManifestFile), text, 0o600)
}

func clearFiles(dir string) (err error) {
	for _, name := range []string{FilesFile, ManifestFile} {
		if removed := os.Remove(filepath.Join(dir, name)); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return err
}

// Files are those of a snapshot that is being restored.
type Files struct {
	FilesManifest
	// AnyImage: the image was named, and is taken as it is now.
	AnyImage bool
	archive  *os.File
}

// OpenFiles opens a snapshot of a system, of which fidelity give is wanted, and completes
// the Spec of the sandbox that is to have its files. Close must follow. Errors: those of
// sandbox.Restorer.
func OpenFiles(system, dir string, give sandbox.Fidelity, spec *sandbox.Spec) (*Files, error) {
	if err := (FilesManifest{System: system}).filesOnly(give); err != nil {
		return nil, err
	}
	m, err := ReadManifest(dir, func(m FilesManifest) bool { return m.Version == filesVersion && m.System == system })
	if err != nil {
		return nil, err
	}
	f := &Files{FilesManifest: m, AnyImage: spec.Image != ""}
	if f.AnyImage && spec.Image != cmp.Or(m.Image, sandbox.HostImage) {
		return nil, sandbox.Invalidf("image", "a restored sandbox has that of its snapshot")
	}
	spec.Image, spec.Command = m.Image, m.Command.With(spec.Command)
	if f.archive, err = os.Open(filepath.Join(dir, FilesFile)); err == nil {
		var info fs.FileInfo
		if info, err = f.archive.Stat(); err == nil && info.Size() == m.Size {
			return f, nil
		}
		err = errors.Join(err, f.archive.Close())
	}
	return nil, &sandbox.Error{Class: sandbox.Invalid, Field: "snapshot", Reason: "a file of it is missing or damaged", Err: err}
}

// Over refuses an image that is not any more what it was, unless it was named. Errors:
// Conflict.
func (f *Files) Over(digest string) error {
	if f.AnyImage {
		return nil
	}
	return SameImage(f.Image, f.Digest, digest)
}

// SameImage refuses an image that is not any more what it was. Errors: Conflict.
func SameImage(image, was, is string) error {
	if was == is {
		return nil
	}
	return &sandbox.Error{Class: sandbox.Conflict, Field: "snapshot",
		Reason: fmt.Sprintf("it was taken over %q with the digest %q, which now is %q", image, was, is),
		Remedy: "bring the old image back, by naming it with its digest"}
}

// Fill gives the files to a sandbox in which nothing has run yet, and settles it once more:
// among them are those of another network. A failure is its end.
func (f *Files) Fill(ctx context.Context, i sandbox.Instance, settle func(context.Context, pid1.Dial) error) error {
	ctx, cancel := context.WithTimeout(ctx, FilesTime)
	defer cancel()
	err := pid1.PutFiles(ctx, i.Dial, f.archive)
	if err == nil {
		err = settle(ctx, i.Dial)
	}
	if err == nil {
		return nil
	}
	clean, done := context.WithTimeout(context.WithoutCancel(ctx), lifetime.CleanupTime)
	defer done()
	return errors.Join(err, i.Destroy(clean))
}

// Close gives back what OpenFiles has opened.
func (f *Files) Close() error { return f.archive.Close() }
