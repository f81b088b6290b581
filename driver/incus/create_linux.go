package incus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"aether/driver/daemon"
	"aether/driver/guestagent"
	"aether/driver/lifetime"
	"aether/image"
	"aether/internal/host/cgroup"
	"aether/sandbox"
)

// Create implements sandbox.Driver.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Instance, error) {
	return d.engine.Make(ctx, spec, d.making())
}

func (d *Driver) making() daemon.Making {
	e := &d.engine
	return daemon.Making{Driver: Name, Open: d.open, Accepts: e.accepts, Create: e.create, Explain: explain,
		Ping: func(ctx context.Context) error {
			_, err := e.api.ping(ctx)
			return err
		}}
}

// accepts refuses what cannot be enforced.
func (e *engine) accepts(spec sandbox.Spec) error {
	refuse := func(class sandbox.Class, field, reason, remedy string) error {
		return &sandbox.Error{Class: class, Field: field, Reason: reason, Remedy: remedy}
	}
	switch l := spec.Limits; {
	case spec.Isolation > sandbox.ProcessBoundary:
		return refuse(sandbox.Unsupported, "isolation", "incus containers give a process boundary, not "+spec.Isolation.String(), "")
	case spec.Network.Mode == sandbox.HostNetwork:
		return refuse(sandbox.Unsupported, "network.mode", "the daemon gives no container the host's network", "use none, or another driver")
	case l.MemoryBytes > 0 && l.MemoryBytes < guestagent.MinMemory:
		return refuse(sandbox.Unsupported, "limits.memory",
			fmt.Sprintf("%d bytes is less than the %d that the service inside the sandbox needs", l.MemoryBytes, guestagent.MinMemory), "")
	case l.DiskBytes > 0 && !e.host.pool.bounds():
		return refuse(sandbox.Unavailable, "limits.disk", "the storage pool "+e.host.pool.Name+" ("+e.host.pool.Driver+") cannot bound what is written", diskRemedy)
	}
	if err := e.network.Accepts(spec.Network); err != nil {
		return err
	}
	if err := guestagent.RefusesRates(Name, spec.Limits); err != nil {
		return err
	}
	// The daemon passes over limits for which its host has no controller.
	return e.groups.Enforces(cgroup.Limits{Memory: spec.Limits.MemoryBytes, CPUs: spec.Limits.CPUs, Pids: spec.Limits.Processes})
}

// create acquires one thing after another; a failure gives all of them back.
func (e *engine) create(ctx context.Context, spec sandbox.Spec, root image.Root) (*daemon.Instance, error) {
	if spec.ID == "" {
		spec.ID = strings.ToLower(rand.Text())
	}
	what, err := e.container(spec, root)
	if err != nil {
		return nil, err
	}
	settings := guestagent.Settings{User: root.Config.User, WorkDir: root.Config.WorkDir, Env: root.Config.Env}
	if settings, err = settings.On(ctx, e.network, spec.Network); err != nil {
		return nil, err
	}
	what.Name = newName()
	if err := e.makeContainer(ctx, what, root); err != nil {
		return nil, err
	}
	b := newWorkload(e, what.Name, spec.Limits)
	if err := b.boot(ctx, settings.With(spec.Command), spec.Network); err != nil {
		return nil, errors.Join(err, b.discard())
	}
	return e.Add(Name, spec, root.Digest, b, b.way), nil
}

// makeTries is how often an image may go away before a container is made of it:
// another program forgets images whose source has changed.
const makeTries = 3

func (e *engine) makeContainer(ctx context.Context, what creation, root image.Root) error {
	for try := 1; ; try++ {
		id, err := e.ensureImage(ctx, root)
		if err != nil {
			return err
		}
		what.Source = map[string]string{"type": "image", "fingerprint": id}
		err = e.api.finish(ctx, http.MethodPost, "/1.0/instances", what)
		if err == nil {
			return nil
		}
		err = errors.Join(err, e.api.discard(what.Name))
		if try == makeTries || e.api.hasImage(ctx, id) {
			return err
		}
	}
}

// finish has the daemon do something to its end: the caller's impatience does not
// cut it off, for nobody would know what became of it.
func (c *client) finish(ctx context.Context, method, path string, in any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), daemon.BootTime)
	defer cancel()
	return c.do(patient, method, path, in)
}

// discard removes a container in a time of its own; one that is not there is
// fine.
func (c *client) discard(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), lifetime.CleanupTime)
	defer cancel()
	return c.remove(ctx, name)
}

// remove ends a container and everything that the daemon keeps of it. One that
// runs cannot be removed, and one that the daemon is busy with must be asked for
// again.
func (c *client) remove(ctx context.Context, name string) error {
	var refused *refusal
	for {
		err := c.do(ctx, http.MethodDelete, instancePath(name), nil)
		if err == nil || gone(err) {
			return nil
		}
		if !errors.As(err, &refused) {
			return explain(err)
		}
		if stopped := c.stop(ctx, name); stopped != nil && !errors.As(stopped, &refused) {
			return explain(stopped)
		}
		if late := daemon.Pause(ctx); late != nil {
			return explain(errors.Join(late, err))
		}
	}
}
