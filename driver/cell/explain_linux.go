package cell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"aether/internal/host/confine"
	"aether/sandbox"
)

var _ sandbox.Explainer = (*Driver)(nil)

// Explain implements sandbox.Explainer.
func (d *Driver) Explain(ctx context.Context, w io.Writer, spec sandbox.Spec, command []string) error {
	if err := spec.Validate(); err != nil {
		return fmt.Errorf("cell: %w", err)
	}
	e, err := d.open()
	if err != nil {
		return err
	}
	if err := e.accepts(spec); err != nil {
		return fmt.Errorf("cell: %w", err)
	}
	root, err := e.images.Resolve(ctx, spec.Image, nil)
	if err != nil {
		return fmt.Errorf("cell: %w", err)
	}
	base, err := e.bases.acquire(root, false)
	if err != nil {
		return fmt.Errorf("cell: %w", err)
	}
	defer e.bases.release(base)
	group, attach, err := e.groups.make()
	if err != nil {
		return fmt.Errorf("cell: %w", err)
	}
	i := &instance{engine: e, spec: spec}
	i.Begin(Name, cmp.Or(spec.ID, newID()), i.kill)
	config := i.config()
	config.Group = attach
	if err = errors.Join(e.apart(&config), i.makeDisk(ctx, &config)); err == nil {
		err = base.Explain(w, config, confine.Command{Path: command[0], Args: command, Dir: "/", UID: confine.UserID, GID: confine.UserID, Group: attach})
	}
	return joinRemoval(ctx, group, errors.Join(err, i.removeDisk()))
}
