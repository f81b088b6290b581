package command

import (
	"context"
	"fmt"
	"io"
	"os"

	"aether/driver/guestagent"
	"aether/guest/pid1"
	"aether/internal/host/upperdir"
	"aether/sandbox"
)

var (
	_ sandbox.Snapshotter = (*Instance)(nil)
	_ sandbox.Restorer    = (*Driver)(nil)
)

// SnapshotFidelity implements sandbox.Snapshotter.
func (i *Instance) SnapshotFidelity() sandbox.Fidelity { return sandbox.Filesystem }

// Snapshot implements sandbox.Snapshotter. The sandbox stands still while its files are
// copied.
func (i *Instance) Snapshot(ctx context.Context, dir string, keep sandbox.Fidelity) error {
	name := i.body.engine.system.Name
	err := guestagent.FilesOf(name, i.spec, i.digest).Keep(dir, keep, func(to io.Writer) error { return i.pack(ctx, to) })
	if err != nil {
		return fmt.Errorf("%s: snapshot %s: %w", name, i.ID(), err)
	}
	return nil
}

// pack writes the files of the sandbox. Where there is no cgroup to freeze, its guest
// service stops the others and sends all that it sees.
func (i *Instance) pack(ctx context.Context, to io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, guestagent.FilesTime)
	defer cancel()
	return i.Verb(func() error {
		if i.body.group == nil {
			return pid1.Files(ctx, i.Dial, to, guestagent.MaxFiles)
		}
		return i.While(ctx, true, i.setPaused, func() error { return i.packUpper(ctx, to) })
	})
}

func (i *Instance) packUpper(ctx context.Context, to io.Writer) error {
	// A descriptor of its own: the other is closed when the sandbox ends.
	var upper *os.File
	if err := i.Living(func(bool) (err error) {
		upper, err = os.Open(fmt.Sprintf("/proc/self/fd/%d", i.body.upper.Fd()))
		return err
	}); err != nil {
		return err
	}
	defer upper.Close()
	return upperdir.Pack(ctx, to, upperdir.Tree{Dir: upper, UserAttrs: true, Owner: i.body.owner})
}

// RestoreFidelity implements sandbox.Restorer.
func (d *Driver) RestoreFidelity() sandbox.Fidelity { return sandbox.Filesystem }

// Restore implements sandbox.Restorer.
func (d *Driver) Restore(ctx context.Context, dir string, give sandbox.Fidelity, spec sandbox.Spec) (sandbox.Instance, error) {
	i, err := d.restore(ctx, dir, give, spec)
	if err != nil {
		return nil, fmt.Errorf("%s: restore: %w", d.system.Name, err)
	}
	return i, nil
}

func (d *Driver) restore(ctx context.Context, dir string, give sandbox.Fidelity, spec sandbox.Spec) (*Instance, error) {
	files, err := guestagent.OpenFiles(d.system.Name, dir, give, &spec)
	if err != nil {
		return nil, err
	}
	defer files.Close()
	i, err := d.GoOn(ctx, spec, Origin{Digest: files.Digest, Fresh: true, AnyImage: files.AnyImage})
	if err != nil {
		return nil, err
	}
	return i, files.Fill(ctx, i, i.body.settle)
}
