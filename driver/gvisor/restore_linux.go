package gvisor

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"aether/driver/command"
	"aether/driver/guestagent"
	"aether/sandbox"
)

var _ sandbox.Restorer = (*Driver)(nil)

// RestoreFidelity implements sandbox.Restorer.
func (d *Driver) RestoreFidelity() sandbox.Fidelity { return sandbox.Checkpoint }

// Restore implements sandbox.Restorer. Errors: Conflict if the image is not any
// more what it was, unless it is named and files are wanted alone, and for memory that
// was not kept; NotFound or Invalid for a snapshot that does not exist or is
// damaged; Unsupported for limits that differ from those of a memory.
func (d *Driver) Restore(ctx context.Context, dir string, give sandbox.Fidelity, spec sandbox.Spec) (sandbox.Instance, error) {
	i, err := d.restore(ctx, dir, give, spec)
	if err != nil {
		return nil, fmt.Errorf("%s: restore: %w", Name, err)
	}
	return i, nil
}

func (d *Driver) restore(ctx context.Context, dir string, give sandbox.Fidelity, spec sandbox.Spec) (*instance, error) {
	if err := guestagent.FilesOrMemory(Name, give); err != nil {
		return nil, err
	}
	m, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	if give == sandbox.Filesystem {
		return d.beginWith(ctx, dir, m, spec)
	}
	if spec.Image != "" {
		return nil, sandbox.Invalidf("image", "a restored sandbox has that of its snapshot")
	}
	if err := m.has(dir, memory); err != nil {
		return nil, err
	}
	return d.goOn(ctx, dir, m, spec)
}

// beginWith starts a sandbox with the files of a snapshot.
func (d *Driver) beginWith(ctx context.Context, dir string, m manifest, spec sandbox.Spec) (*instance, error) {
	over := spec.Image
	if over != "" && over != cmp.Or(m.Image, sandbox.HostImage) {
		return nil, sandbox.Invalidf("image", "a restored sandbox has that of its snapshot")
	}
	if err := m.has(dir, files); err != nil {
		return nil, err
	}
	spec.Image, spec.Command = m.Image, m.Command.With(spec.Command)
	i, err := d.GoOn(ctx, spec, command.Origin{Digest: m.Digest, Shown: files.paths(dir), Command: d.opts.Platform.runFiles,
		Fresh: true, AnyImage: over != ""})
	if err != nil {
		return nil, err
	}
	return d.instance(i, i.ID()), nil
}

// goOn starts a sandbox from the memory of a snapshot.
func (d *Driver) goOn(ctx context.Context, dir string, m manifest, spec sandbox.Spec) (*instance, error) {
	spec, err := d.fit(m, spec)
	if err != nil {
		return nil, err
	}
	i, err := d.GoOn(ctx, spec, command.Origin{Digest: m.Digest, Shown: memory.paths(dir), Authority: m.Authority, Command: func(s command.Stage, spec sandbox.Spec) (command.Command, error) {
		return d.opts.Platform.restore(s, spec, m.Hostname)
	}})
	if err != nil {
		return nil, err
	}
	return d.instance(i, m.Hostname), nil
}

// fit gives the Spec of a sandbox that goes on from a snapshot: what gVisor's
// kernel holds is as it was.
func (d *Driver) fit(m manifest, asked sandbox.Spec) (sandbox.Spec, error) {
	if err := guestagent.RefusesRates(Name, asked.Limits); err != nil {
		return asked, err
	}
	spec := asked
	var err error
	if spec.Mounts, err = m.mounts(asked.Mounts); err != nil {
		return spec, err
	}
	spec.Image, spec.Command = m.Image, m.Command
	spec.Limits = m.Limits
	if asked.Limits.CPUs > 0 {
		spec.Limits.CPUs = asked.Limits.CPUs
	}
	if err := guestagent.Unchanged(
		guestagent.Kept{Field: "limits.memory", Asked: asked.Limits.MemoryBytes, Has: m.Limits.MemoryBytes},
		guestagent.Kept{Field: "limits.processes", Asked: asked.Limits.Processes, Has: m.Limits.Processes},
		guestagent.Kept{Field: "limits.disk", Asked: asked.Limits.DiskBytes, Has: m.Limits.DiskBytes},
	); err != nil {
		return spec, err
	}
	switch {
	case (asked.Network.Mode == sandbox.HostNetwork) != (m.Network.Mode == sandbox.HostNetwork):
		return spec, &sandbox.Error{Class: sandbox.Unsupported, Field: "network.mode",
			Reason: fmt.Sprintf("a snapshot's network cannot change from %q to %q", m.Network.Mode, asked.Network.Mode)}
	case m.Platform != d.opts.Platform:
		return spec, &sandbox.Error{Class: sandbox.Unavailable, Field: "snapshot",
			Reason: fmt.Sprintf("it was made on the platform %s, and this driver uses %s", m.Platform, d.opts.Platform)}
	}
	return spec, nil
}

// mounts are those of the snapshot, from where they were or from where they are now: the
// caller gives none, or each of them again.
func (m manifest) mounts(given []sandbox.Mount) ([]sandbox.Mount, error) {
	same := func(a, b sandbox.Mount) bool { return a.Target == b.Target && a.Writable == b.Writable }
	switch {
	case len(given) == 0:
		return m.Mounts, nil
	case !slices.EqualFunc(m.Mounts, given, same):
		return nil, sandbox.Invalidf("mounts", "a restored sandbox has those of its snapshot")
	}
	return given, nil
}
