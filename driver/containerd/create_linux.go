package containerd

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"aether/driver/daemon"
	"aether/driver/guestagent"
	"aether/image"
	"aether/sandbox"
)

// Create implements sandbox.Driver.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Instance, error) {
	return d.engine.Make(ctx, spec, d.making())
}

func (d *Driver) making() daemon.Making {
	e := &d.engine
	return daemon.Making{Driver: d.opts.name(), Open: d.open, Accepts: d.opts.accepts, Create: e.create, Explain: explain,
		Ping: func(ctx context.Context) error {
			_, err := e.client.ping(ctx)
			return err
		}}
}

// accepts refuses what cannot be enforced.
func (o Options) accepts(spec sandbox.Spec) error {
	refuse := func(field, reason, remedy string) error {
		return &sandbox.Error{Class: sandbox.Unsupported, Field: field, Reason: reason, Remedy: remedy}
	}
	switch l := spec.Limits; {
	case spec.Isolation > o.boundary():
		return refuse("isolation", fmt.Sprintf("%s gives a %v boundary, not %v", o.shim(), o.boundary(), spec.Isolation), "")
	case spec.Network.Mode.Filtered() && o.shim() != RuncShim:
		return refuse("network.mode", o.shim()+" may take the network device for itself", "use none, or another driver")
	case spec.Network.Mode == sandbox.HostNetwork && o.boundary() == sandbox.HardwareBoundary:
		return refuse("network.mode", "a machine cannot be in the host's network namespace", "use none")
	case l.DiskBytes > 0:
		return refuse("limits.disk", "what is written is in a directory of the host, which has no bound of its own", "leave it unset")
	case l.MemoryBytes > 0 && l.MemoryBytes < guestagent.MinMemory:
		return refuse("limits.memory", fmt.Sprintf("%d bytes is less than the %d that the service inside the sandbox needs", l.MemoryBytes, guestagent.MinMemory), "")
	}
	if err := o.Network.Accepts(spec.Network); err != nil {
		return err
	}
	return guestagent.RefusesRates(o.name(), spec.Limits)
}

// create acquires one thing after another; a failure gives all of them back.
func (e *engine) create(ctx context.Context, spec sandbox.Spec, root image.Root) (*daemon.Instance, error) {
	layers, err := e.Bare.Layers(root)
	if err != nil {
		return nil, err
	}
	if spec.ID == "" {
		spec.ID = strings.ToLower(rand.Text())
	}
	b := &workload{engine: e, id: "aether-" + strings.ToLower(rand.Text())}
	config, err := e.specification(spec, root, "/"+b.id)
	if err != nil {
		return nil, err
	}
	settings := guestagent.Settings{User: root.Config.User, WorkDir: root.Config.WorkDir, Env: root.Config.Env}
	if settings, err = settings.On(ctx, e.opts.Network, spec.Network); err != nil {
		return nil, err
	}
	dialer, err := b.boot(ctx, spec, config, layers, settings.With(spec.Command))
	if err != nil {
		return nil, err
	}
	return e.Add(e.opts.name(), spec, root.Digest, b, dialer), nil
}
