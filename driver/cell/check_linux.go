package cell

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"aether/image"
	"aether/image/snapshot"
	"aether/sandbox"
)

var _ sandbox.RestoreChecker = (*Driver)(nil)

// CheckRestore implements sandbox.RestoreChecker.
func (d *Driver) CheckRestore(ctx context.Context, dir string, give sandbox.Fidelity) error {
	if err := d.checkRestore(ctx, dir, give); err != nil {
		return fmt.Errorf("cell: restore: %w", err)
	}
	return nil
}

func (d *Driver) checkRestore(ctx context.Context, dir string, give sandbox.Fidelity) error {
	rec, err := snapshot.Read(dir)
	if err != nil {
		return err
	}
	images, err := d.opts.Images()
	if err != nil {
		return err
	}
	root, known, err := images.Local(ctx, rec.Image)
	if err == nil && known { // or it is fetched
		err = sameImage(rec, root)
	}
	if err != nil {
		return err
	}
	if give == sandbox.Filesystem {
		return nil
	}
	return checkProcesses(ctx, &snapshots{dir: d.opts.SnapshotDir}, dir, rec, root)
}

// sameImage refuses an image that is not what it was. Errors: Conflict.
func sameImage(rec snapshot.Record, root image.Root) error {
	if root.Digest == rec.Digest {
		return nil
	}
	return &sandbox.Error{Class: sandbox.Conflict, Field: "snapshot",
		Reason: fmt.Sprintf("it was taken over %q with the digest %q, which now is %q", rec.Image, rec.Digest, root.Digest),
		Remedy: "bring the old image back, by naming it with its digest, or restore its files alone over what the image is now"}
}

// lookup tells of the files of a root that may change under a snapshot: those of
// directories of the host that the sandbox had not written itself.
func lookup(dir string, root image.Root) (func(path string) (fs.FileInfo, bool, error), error) {
	written, err := snapshot.Written(dir)
	if err != nil {
		return nil, err
	}
	return func(path string) (fs.FileInfo, bool, error) {
		if written[path] {
			return nil, false, nil
		}
		if root.Digest == "" && len(root.Layers) > 0 { // a directory, which is somebody else's
			info, err := os.Stat(filepath.Join(root.Layers[0], path))
			return info, true, err
		}
		for _, bind := range root.Binds {
			if rest, below := strings.CutPrefix(path, strings.TrimSuffix(bind.Target, "/")+"/"); below {
				info, err := os.Stat(filepath.Join(bind.Source, rest))
				return info, true, err
			}
		}
		return nil, false, nil
	}, nil
}
