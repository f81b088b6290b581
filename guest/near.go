package guest

import (
	"context"

	"aether/sandbox"

	pb "aether/guest/wire/process"
)

// Near is a guest service in this very program, whose processes are started and
// followed without the wire. A Service is one, and nothing else can be.
type Near interface {
	startNear(context.Context, ClientOptions, *pb.StartRequest) (nearProcess, error)
	connectNear(context.Context, ClientOptions, *pb.ProcessSelector) (nearProcess, error)
}

// nearProcess is what the wire gives of a process, by plain calls. The errors are
// those that came over the wire.
type nearProcess interface {
	eventStream
	event() *pb.ProcessEvent
	// write writes input until the context ends; writeFollowing, only while the
	// process is followed.
	write(context.Context, *pb.ProcessInput) error
	writeFollowing(*pb.ProcessInput) error
	closeInput() error
}

// ClientFor makes a client of an instance. Where the guest service of the instance
// is in this program, which is said by a method
//
//	Guest() (guest.Near, error)
//
// that fails as Dial does, processes are started, followed and written to without
// the wire. It means the same and takes microseconds.
func ClientFor(instance sandbox.Instance, opts ClientOptions) *Client {
	c := NewClient(instance.Dial, opts)
	if i, ok := instance.(interface{ Guest() (Near, error) }); ok {
		c.near = i.Guest
	}
	return c
}

// nearby calls the service that is near.
func (c *Client) nearby(call func(Near) (nearProcess, error)) (eventStream, error) {
	near, err := c.near()
	if err != nil {
		return nil, err
	}
	return call(near)
}
