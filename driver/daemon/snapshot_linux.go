package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"

	"aether/driver/guestagent"
	"aether/guest/pid1"
	"aether/internal/host/upperdir"
	"aether/sandbox"
)

var _ sandbox.Snapshotter = (*Instance)(nil)

// SnapshotFidelity implements sandbox.Snapshotter.
func (i *Instance) SnapshotFidelity() sandbox.Fidelity { return sandbox.Filesystem }

// Snapshot implements sandbox.Snapshotter. The sandbox stands still while its files are
// copied.
func (i *Instance) Snapshot(ctx context.Context, dir string, keep sandbox.Fidelity) error {
	if err := i.files.Keep(dir, keep, func(to io.Writer) error { return i.pack(ctx, to) }); err != nil {
		return fmt.Errorf("%s: snapshot %s: %w", i.driver, i.ID(), err)
	}
	return nil
}

// pack writes what the sandbox has written, where this program sees that. Else the guest
// service stops the others and sends all that it sees.
func (i *Instance) pack(ctx context.Context, to io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, guestagent.FilesTime)
	defer cancel()
	return i.Verb(func() error {
		if err := i.Alive(); err != nil {
			return err
		}
		written, err := i.body.Written()
		if err != nil {
			return errors.Join(i.Alive(), err)
		}
		if written == nil {
			return i.While(ctx, false, i.setPaused, func() error { return pid1.Files(ctx, i.Dial, to, guestagent.MaxFiles) })
		}
		defer written.tree.Dir.Close()
		return i.While(ctx, true, i.setPaused, func() error { return upperdir.Pack(ctx, to, written.tree) })
	})
}

// Restore is sandbox.Restorer's for a driver of this kind.
func (h *Home) Restore(ctx context.Context, dir string, give sandbox.Fidelity, spec sandbox.Spec, m Making) (sandbox.Instance, error) {
	i, err := h.restore(ctx, dir, give, spec, m)
	if err != nil {
		return nil, fmt.Errorf("%s: restore: %w", m.Driver, m.Explain(err))
	}
	return i, nil
}

func (h *Home) restore(ctx context.Context, dir string, give sandbox.Fidelity, spec sandbox.Spec, m Making) (*Instance, error) {
	files, err := guestagent.OpenFiles(m.Driver, dir, give, &spec)
	if err != nil {
		return nil, err
	}
	defer files.Close()
	m.over = files.Over
	i, err := h.make(ctx, spec, m)
	if err != nil {
		return nil, err
	}
	return i, files.Fill(ctx, i, func(ctx context.Context, dial pid1.Dial) error {
		return i.body.Settle(ctx, dial, h.Fleet.Logger)
	})
}
