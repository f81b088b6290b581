package guest

import (
	"context"

	"aether/sandbox"

	pb "aether/guest/wire/process"
)

// InProcess is a sandbox.Instance whose guest service works in this very program,
// as for cells: the service is beside the sandbox and reaches into it. A driver of
// that kind implements it to spare its callers the wire; a type that wraps an
// Instance has to pass it on, or everything works as before and takes longer.
//
// ClientFor finds it by type assertion. Whatever is started, followed or written to
// by way of it means the same as over the wire: the same checks, events, bounds and
// errors, without encoding and without a connection.
type InProcess interface {
	// Guest gives the service. It may be called by many at once. Errors: those of
	// Dial, NotFound once the sandbox has ended.
	Guest() (InProcessService, error)
}

// InProcessService is a guest service in this program. A *Service is one, and
// nothing else can be; it has a name of its own because clients exist on platforms
// where no Service does.
type InProcessService interface {
	// Backend is how the service reaches its sandbox. What is started there is
	// not in the service's table of processes.
	Backend() Backend

	startInProcess(context.Context, ClientOptions, *pb.StartRequest) (inProcessRun, error)
	connectInProcess(context.Context, ClientOptions, *pb.ProcessSelector) (inProcessRun, error)
}

// inProcessRun is what the wire gives of a process, by plain calls. The errors are
// those that came over the wire.
type inProcessRun interface {
	eventStream
	event() *pb.ProcessEvent
	// write writes input until the context ends; writeFollowing, only while the
	// process is followed.
	write(context.Context, *pb.ProcessInput) error
	writeFollowing(*pb.ProcessInput) error
	closeInput() error
}

// ClientFor makes a client of an instance. Where that is InProcess, processes are
// started, followed and written to without the wire, which takes microseconds;
// everything else goes over Dial.
func ClientFor(instance sandbox.Instance, opts ClientOptions) *Client {
	c := NewClient(instance.Dial, opts)
	if i, ok := instance.(InProcess); ok {
		c.here = i.Guest
	}
	return c
}

// inProcess calls the service in this program.
func (c *Client) inProcess(call func(InProcessService) (inProcessRun, error)) (eventStream, error) {
	service, err := c.here()
	if err != nil {
		return nil, err
	}
	return call(service)
}
