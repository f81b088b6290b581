package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"aether/driver/daemon"
	"aether/driver/guestagent"
	"aether/driver/lifetime"
	"aether/image"
	"aether/sandbox"
)

// Create implements sandbox.Driver.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Instance, error) {
	return d.engine.Make(ctx, spec, d.making())
}

func (d *Driver) making() daemon.Making {
	e := &d.engine
	return daemon.Making{Driver: Name, Open: d.open, Accepts: e.accepts, Explain: explain,
		Ping: func(ctx context.Context) error { return e.api.ping(ctx) },
		Create: func(ctx context.Context, spec sandbox.Spec, root image.Root) (*daemon.Instance, error) {
			return e.create(ctx, spec, root, d.opts.Runtime)
		}}
}

// accepts refuses what cannot be enforced.
func (e *engine) accepts(spec sandbox.Spec) error {
	refuse := func(class sandbox.Class, field, reason, remedy string) error {
		return &sandbox.Error{Class: class, Field: field, Reason: reason, Remedy: remedy}
	}
	switch l := spec.Limits; {
	case spec.Isolation > sandbox.ProcessBoundary:
		return refuse(sandbox.Unsupported, "isolation", "docker gives a process boundary, not "+spec.Isolation.String(), "")
	case spec.Network.Mode.Filtered() && e.opaque:
		return refuse(sandbox.Unsupported, "network.mode", "another runtime than the daemon's own may take the network device for itself", "use none or host")
	case l.MemoryBytes > 0 && l.MemoryBytes < guestagent.MinMemory:
		return refuse(sandbox.Unsupported, "limits.memory",
			fmt.Sprintf("%d bytes is less than the %d that the service inside the sandbox needs", l.MemoryBytes, guestagent.MinMemory), "")
	}
	for _, l := range limits {
		if l.asked(spec.Limits) && !l.held(e.daemon) {
			return refuse(sandbox.Unavailable, l.field, "the daemon cannot hold it", cgroupRemedy)
		}
	}
	if err := e.network.Accepts(spec.Network); err != nil {
		return err
	}
	return guestagent.RefusesRates(Name, spec.Limits)
}

// create acquires one thing after another; a failure gives all of them back.
func (e *engine) create(ctx context.Context, spec sandbox.Spec, root image.Root, runtime string) (*daemon.Instance, error) {
	layers, err := e.Bare.Layers(root)
	if err != nil {
		return nil, err
	}
	ref, err := e.ensureImage(ctx, root, layers)
	if err != nil {
		return nil, err
	}
	if spec.ID == "" {
		spec.ID = strings.ToLower(rand.Text())
	}
	what, err := e.container(spec, root, ref, runtime)
	if err != nil {
		return nil, err
	}
	b := &workload{engine: e, limits: spec.Limits}
	settings := guestagent.Settings{User: root.Config.User, WorkDir: root.Config.WorkDir, Env: root.Config.Env}
	if settings, err = settings.On(ctx, e.network, spec.Network); err != nil {
		return nil, err
	}
	dialer, err := b.boot(ctx, what, settings.With(spec.Command), spec.Network)
	if err != nil {
		return nil, err
	}
	return e.Add(Name, spec, root.Digest, b, dialer), nil
}

// makeContainer has the daemon make a container. The caller's impatience does not
// cut the request off: nobody would know what the daemon made of it.
func (e *engine) makeContainer(ctx context.Context, what configuration) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), daemon.BootTime)
	defer cancel()
	name := "aether-" + strings.ToLower(rand.Text())
	var made struct{ ID string }
	err := e.api.ask(ctx, http.MethodPost, "/containers/create", url.Values{"name": {name}}, what, &made)
	if err == nil {
		return made.ID, nil
	}
	if what.HostConfig.StorageOpt != nil {
		err = &sandbox.Error{Class: sandbox.Unavailable, Field: "limits.disk", Reason: "the daemon cannot bound what is written",
			Remedy: "leave the limit unset, or keep the daemon's data on xfs with the option pquota", Err: err}
	}
	return "", errors.Join(err, e.discard(name))
}

// discard removes a container in a time of its own; one that is not there is
// fine.
func (e *engine) discard(container string) error {
	ctx, cancel := context.WithTimeout(context.Background(), lifetime.CleanupTime)
	defer cancel()
	return remove(ctx, e.api, container)
}

// remove ends a container and everything that the daemon keeps of it.
func remove(ctx context.Context, api *client, container string) error {
	for {
		err := api.ask(ctx, http.MethodDelete, "/containers/"+container, url.Values{"force": {"1"}, "v": {"1"}}, nil, nil)
		if err == nil || gone(err) {
			return nil
		}
		if !conflicts(err) { // which says that somebody else's removal is under way
			return explain(err)
		}
		if err := daemon.Pause(ctx); err != nil {
			return err
		}
	}
}
