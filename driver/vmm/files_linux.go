package vmm

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"aether/driver/guestagent"
	"aether/driver/lifetime"
	"aether/guest/pid1"
	"aether/internal/host/storedir"
	"aether/sandbox"
)

// What a machine has written is in its memory, and only its kernel knows where: its init
// sends the files, and takes them. This program never looks into what was sent.

// keepFiles writes the files of a machine and what it was made of to dir. The machine's
// init answers only while it runs: one that is paused goes on for as long as its commands
// take to be stopped inside.
func (m *machine) keepFiles(ctx context.Context, dir string) (err error) {
	if m.paused {
		defer func() { // also if nobody waited until it ran
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifetime.CleanupTime)
			defer cancel()
			err = errors.Join(err, m.monitor.Pause(ctx))
		}()
		if err := m.monitor.Resume(ctx); err != nil {
			return err
		}
	}
	if err := m.saveFiles(ctx, filepath.Join(dir, filesFile)); err != nil {
		return err
	}
	if err := m.place.keepDisk(m, filepath.Join(dir, diskFile)); err != nil {
		return err
	}
	kept := m.manifest()
	kept.FilesOnly, kept.Authority = true, nil // nothing of it has read a certificate
	return kept.write(dir)
}

// maxFiles bounds what a guest may send: files are in its memory or on its disk, and names of
// files that have no content take less of that than of the archive.
func (m *machine) maxFiles() int64 { return 4 * (m.hardware.MemoryMiB*mebibyte + m.writable.bytes()) }

// filesTime bounds how long a guest may take to send its files.
const filesTime = 10 * time.Minute

func (m *machine) saveFiles(ctx context.Context, name string) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, filesTime)
	defer cancel()
	return errors.Join(pid1.Files(ctx, m.line.Dial, file, m.maxFiles()), file.Close())
}

// putFiles gives a machine that is nobody's yet files; nil are none.
func (m *machine) putFiles(ctx context.Context, files *os.File) error {
	if files == nil {
		return nil
	}
	return pid1.PutFiles(ctx, m.line.Dial, files)
}

// beginWith starts a machine with the files of a snapshot, over the disk of its source.
func (e *engine) beginWith(ctx context.Context, dir string, spec sandbox.Spec, from manifest) (*instance, error) {
	if spec.Image != "" && spec.Image != cmp.Or(from.Origin.Image, sandbox.HostImage) {
		return nil, sandbox.Invalidf("image", "a restored sandbox has that of its snapshot")
	}
	if err := from.of(e.system); err != nil {
		return nil, err
	}
	err := e.accepts(ctx, spec)
	if err != nil {
		return nil, err
	}
	if from.Origin.Defaults, err = from.Origin.Defaults.On(ctx, e.opts.Network, spec.Network); err != nil {
		return nil, err
	}
	from.Origin.Defaults = from.Origin.Defaults.With(spec.Command)
	files, forget, err := e.filesOf(ctx, dir, from)
	if err != nil {
		return nil, err
	}
	defer files.Close()
	defer guestagent.Discard(e.opts.Logger, e.system.Name+": the files of a checkpoint could not be removed", forget)
	return e.beginOver(ctx, filepath.Join(dir, diskFile), spec, from.Origin, files)
}

func (e *engine) beginOver(ctx context.Context, disk string, spec sandbox.Spec, from origin, files *os.File) (*instance, error) {
	file, err := os.Open(disk)
	if err != nil {
		return nil, err
	}
	return e.newMachine(spec, e.hardwareFor(spec.Limits), from, file).come(ctx, files)
}

// filesOf opens the archive of a snapshot. A snapshot of memory has none: it is made by a
// machine that goes on from it for as long as its commands take to be stopped.
func (e *engine) filesOf(ctx context.Context, dir string, from manifest) (_ *os.File, forget func() error, err error) {
	if from.FilesOnly {
		file, err := os.Open(filepath.Join(dir, filesFile))
		return file, func() error { return nil }, err
	}
	scratch, remove, err := storedir.Scratch(ctx, forksDir(e.opts))
	if err != nil {
		return nil, nil, err
	}
	name := filepath.Join(scratch, filesFile)
	err = e.extract(ctx, dir, from, name)
	if err == nil {
		var file *os.File
		if file, err = os.Open(name); err == nil {
			return file, remove, nil
		}
	}
	return nil, nil, errors.Join(err, remove())
}

func (e *engine) extract(ctx context.Context, dir string, from manifest, name string) error {
	limits, err := e.fit(from, sandbox.Limits{})
	if err != nil {
		return err
	}
	i, err := e.restore(ctx, dir, sandbox.Spec{Limits: limits}, from)
	if err != nil {
		return err
	}
	return errors.Join(i.saveFiles(ctx, name), i.Destroy(ctx))
}
