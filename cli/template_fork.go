package cli

import (
	"context"
	"errors"
	"net"
	"time"

	"aether/engine"
	"aether/guest"
	"aether/rest"
	"aether/sandbox"
)

// forks is a template of a daemon in the place of a driver: what it creates are forks of
// it, which end with this program.
type forks struct {
	client   *rest.Client
	template engine.TemplateInfo
}

var _ sandbox.Driver = (*forks)(nil)

// Info implements sandbox.Driver.
func (f *forks) Info() sandbox.Info {
	return sandbox.Info{Name: f.template.Driver, Boundary: f.template.Boundary}
}

// Probe implements sandbox.Driver.
func (f *forks) Probe(ctx context.Context) sandbox.Report {
	if err := f.client.Ready(ctx); err != nil {
		return sandbox.Report{Reason: err.Error()}
	}
	return sandbox.Report{Usable: true}
}

// Create implements sandbox.Driver.
func (f *forks) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Instance, error) {
	made, err := f.fork(ctx, spec)
	if err != nil {
		return nil, err
	}
	return made, nil
}

func (f *forks) fork(ctx context.Context, spec sandbox.Spec) (*templateChild, error) {
	made, err := f.client.CreateAttached(ctx, engine.CreateRequest{Spec: spec, Template: f.template.ID})
	if err != nil {
		return nil, err
	}
	return &templateChild{made, f.client, f.client.GuestOf(made.ID, guest.ClientOptions{})}, nil
}

// templateChild is a sandbox of a daemon that ends with this program.
type templateChild struct {
	*rest.Attached
	client *rest.Client
	inside *guest.Client
}

var _ sandbox.Instance = (*templateChild)(nil)

// ID implements sandbox.Instance.
func (f *templateChild) ID() string { return f.Sandbox.ID }

// Dial implements sandbox.Instance. The daemon carries requests and no connections: see
// clientOf.
func (f *templateChild) Dial(context.Context) (net.Conn, error) {
	return nil, &sandbox.Error{Class: sandbox.Unsupported, Op: "dial " + f.ID(), Reason: "its guest service is reached by way of the daemon"}
}

// Stats implements sandbox.Instance.
func (f *templateChild) Stats(ctx context.Context) (sandbox.Stats, error) {
	return f.client.Stats(ctx, f.ID())
}

// Wait implements sandbox.Instance. Whoever runs something in a fork sees that end.
func (f *templateChild) Wait(context.Context) (sandbox.Exit, error) {
	return sandbox.Exit{}, &sandbox.Error{Class: sandbox.Unsupported, Op: "wait for " + f.ID(), Reason: "the daemon knows of its end: see aether get"}
}

// destroyTime bounds the end of a fork. A daemon that does not answer by then has lost its
// connection to us, with which the fork ends too.
const destroyTime = 10 * time.Second

// Destroy implements sandbox.Instance.
func (f *templateChild) Destroy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyTime)
	defer cancel()
	err := f.client.Destroy(ctx, f.ID())
	switch sandbox.ClassOf(err) {
	case sandbox.NotFound, sandbox.Unavailable:
		err = nil // it, or its daemon, has ended before
	}
	return errors.Join(err, f.Close())
}

// clientOf is a client of the guest service of a sandbox.
func clientOf(instance sandbox.Instance) *guest.Client {
	if f, ok := instance.(*templateChild); ok {
		return f.inside
	}
	return guest.ClientFor(instance, guest.ClientOptions{})
}
