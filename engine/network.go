package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"aether/sandbox"
)

// SetNetwork changes what a sandbox may reach, at once: connections that are allowed no
// more are cut. One that is paused has it when it is resumed. The mode stays what it is.
// Errors: Invalid, Denied; NotFound; Unsupported for a sandbox without a network of its own.
func (e *Engine) SetNetwork(ctx context.Context, who Caller, id string, n sandbox.Network) (Sandbox, error) {
	if err := (sandbox.Spec{Network: n}).Validate(); err != nil {
		return Sandbox{}, err
	}
	ctx, b, release, err := e.turn(ctx, who, id)
	if err != nil {
		return Sandbox{}, err
	}
	defer release()
	if _, err := e.fleet.rights.permit(who, sandbox.Spec{Network: n}); err != nil {
		return Sandbox{}, err
	}
	if err := e.fleet.setNetwork(ctx, b, n); err != nil {
		return Sandbox{}, fmt.Errorf("engine: network of %s: %w", id, err)
	}
	return b.view(), nil
}

// setNetwork changes the policy of a box, whose turn the caller has. If it fails, the old
// one holds.
func (f *fleet) setNetwork(ctx context.Context, b *box, n sandbox.Network) error {
	r := b.copy()
	switch {
	case r.State == Ended:
		return r.gone()
	case r.Spec.Network.Mode != n.Mode || !n.Mode.Filtered():
		return errModeStays
	}
	apply := func(n sandbox.Network) error { return f.applyNetwork(ctx, b, n) }
	if err := apply(n); err != nil {
		return err
	}
	err := b.change(func(r *record) { r.Spec.Network = n }, Event{Kind: EventNetworkChanged})
	if err != nil {
		return errors.Join(err, apply(r.Spec.Network))
	}
	return nil
}

var errModeStays = &sandbox.Error{Class: sandbox.Unsupported, Field: "network.mode", Reason: "what a sandbox reaches is changed within its mode, and only where that has a policy",
	Remedy: "make another sandbox, with --net egress"}

// applyNetwork has the instance of a box, if it has one, reach what a policy says.
func (f *fleet) applyNetwork(ctx context.Context, b *box, n sandbox.Network) error {
	instance := b.instance()
	if instance == nil {
		return nil
	}
	setter, ok := instance.(sandbox.NetworkSetter)
	if !ok {
		return &sandbox.Error{Class: sandbox.Unsupported, Reason: "sandboxes of " + b.copy().Driver + " keep the network that they were made with"}
	}
	return setter.SetNetwork(f.revealing(ctx, b.tenant), n)
}

// refreshSecrets has an instance that was kept ready send what the secrets of its policy
// are now.
func (f *fleet) refreshSecrets(ctx context.Context, tenant string, instance sandbox.Instance, n sandbox.Network) error {
	setter, ok := instance.(sandbox.NetworkSetter)
	if !ok || len(n.Secrets()) == 0 {
		return nil
	}
	return setter.SetNetwork(f.revealing(ctx, tenant), n)
}

// NetworkLog tells what was decided about the network of a sandbox since it was made or
// last resumed: the last of those that differ, least recent first, and how many more there
// were. Errors: NotFound; Conflict for a paused one; Unsupported for one without a network
// of its own.
func (e *Engine) NetworkLog(ctx context.Context, who Caller, id string) (list []sandbox.NetworkDecision, missed int64, err error) {
	b, instance, err := e.look(who, id)
	if err != nil {
		return nil, 0, err
	}
	log, ok := instance.(sandbox.NetworkLog)
	if !ok {
		return nil, 0, &sandbox.Error{Class: sandbox.Unsupported, Op: "engine: network of " + id,
			Reason: "sandboxes of " + b.copy().Driver + " do not remember what was decided about their network"}
	}
	if list, missed, err = log.NetworkDecisions(ctx); err != nil {
		return nil, 0, fmt.Errorf("engine: network of %s: %w", id, err)
	}
	return list, missed, nil
}

// revealing gives whoever makes a sandbox of a tenant, or changes its network, the
// tenant's secrets.
func (f *fleet) revealing(ctx context.Context, tenant string) context.Context {
	return sandbox.WithSecrets(ctx, func(name string) (string, []string, error) {
		value, hosts, err := f.secretValue(tenant, name)
		if err != nil {
			return "", nil, err
		}
		defer value.Clear()
		return string(value.Reveal()), hosts, nil
	})
}

// acting is revealing for whoever may have to fetch an image too.
func (f *fleet) acting(ctx context.Context, tenant string, asked bool) context.Context {
	return f.revealing(f.rights.fetching(ctx, tenant, asked), tenant)
}

// renewSecret has the sandboxes of a tenant that send a secret send its new value or, if it
// is gone, reach the hosts that it is for no more.
func (f *fleet) renewSecret(ctx context.Context, tenant, name string) {
	for _, b := range f.index.each() {
		if b.tenant != tenant || !slices.Contains(b.copy().Spec.Network.Secrets(), name) {
			continue
		}
		if err := f.renew(ctx, b); err != nil {
			f.engine.log.Error("engine: a sandbox goes on with the value that a secret had", "sandbox", b.id, "secret", name, "err", err)
		}
	}
}

func (f *fleet) renew(ctx context.Context, b *box) error {
	release, err := b.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	return f.sendNow(ctx, b)
}

// renewMade is renew for a box that is found from now on, and whose turn the caller has: who
// changed a secret after the instance was given it, and before, did not know of the box.
func (f *fleet) renewMade(ctx context.Context, b *box) {
	if _, ok := b.instance().(sandbox.NetworkSetter); !ok || len(b.copy().Spec.Network.Secrets()) == 0 {
		return
	}
	if err := f.sendNow(context.WithoutCancel(ctx), b); err != nil {
		f.engine.log.Error("engine: a sandbox may go on with values that secrets had", "sandbox", b.id, "err", err)
	}
}

// sendNow has a box, whose turn the caller has, send what the secrets of its policy are now.
func (f *fleet) sendNow(ctx context.Context, b *box) error {
	n := b.copy().Spec.Network
	for _, name := range n.Secrets() {
		value, _, err := f.secretValue(b.tenant, name)
		if sandbox.ClassOf(err) == sandbox.NotFound {
			n = n.Without(name)
		}
		value.Clear()
	}
	return f.applyNetwork(ctx, b, n)
}
