package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"connectrpc.com/connect"

	"aether/driver/daemon"
	"aether/internal/bounded"
	"aether/sandbox"
)

const (
	addressVariable = "CONTAINERD_ADDRESS"
	defaultAddress  = "/run/containerd/containerd.sock"
	// namespace keeps what is ours apart from what others have at the daemon.
	namespace       = "aether"
	namespaceHeader = "containerd-namespace"
	// maxAnswer bounds what is read of an answer.
	maxAnswer = 16 << 20
)

func (o Options) address() string {
	for _, address := range []string{o.Address, os.Getenv(addressVariable)} {
		if address != "" {
			return address
		}
	}
	return defaultAddress
}

// client speaks gRPC to containerd.
type client struct {
	socket    string
	transport *http.Transport
}

// newClient makes a client of the daemon; close gives it back. It waits for nobody.
func newClient(socket string) *client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return daemon.Dial(ctx, socket)
	}
	transport := &http.Transport{DialContext: dial, Protocols: new(http.Protocols), MaxResponseHeaderBytes: daemon.MaxHeader}
	transport.Protocols.SetUnencryptedHTTP2(true)
	return &client{socket, transport}
}

func (d *client) close() { d.transport.CloseIdleConnections() }

// Services of containerd.
const (
	tasks      = "containerd.services.tasks.v1.Tasks"
	containers = "containerd.services.containers.v1.Containers"
	version    = "containerd.services.version.v1.Version"
)

// call has a service do something and reads what it answers.
func (d *client) call(ctx context.Context, service, method string, m message) (fields, error) {
	c := connect.NewClient[message, message](&http.Client{Transport: ending{d.transport}}, "http://containerd/"+service+"/"+method,
		connect.WithGRPC(), connect.WithCodec(asIs{}), connect.WithReadMaxBytes(maxAnswer))
	request := connect.NewRequest(&m)
	request.Header().Set(namespaceHeader, namespace)
	answer, err := c.CallUnary(ctx, request)
	if err != nil {
		return fields{}, err
	}
	return answer.Msg.read()
}

// ending gives answers that end: where one is over its bound, Connect would read on for
// the end of it.
type ending struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (e ending) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := e.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	body := &bounded.Reader{From: answer.Body, What: "the daemon's answer", Max: maxAnswer}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{body, answer.Body}
	return answer, nil
}

// asIs sends and receives messages that are encoded already.
type asIs struct{}

func (asIs) Name() string { return "proto" }

func (asIs) Marshal(m any) ([]byte, error) {
	if m, ok := m.(*message); ok {
		return *m, nil
	}
	return nil, fmt.Errorf("containerd: %T is no message", m)
}

func (asIs) Unmarshal(data []byte, m any) error {
	to, ok := m.(*message)
	if !ok {
		return fmt.Errorf("containerd: %T is no message", m)
	}
	*to = append(message{}, data...) // which is used again for others
	return nil
}

// ping asks for a sign of life, which is a version. Errors: Unavailable.
func (d *client) ping(ctx context.Context) (text string, err error) {
	where := daemon.Daemon{Socket: d.socket, Name: "containerd", Unit: "containerd",
		Install: "install the package containerd and start it, or set " + addressVariable, Allow: "run as root"}
	err = where.Ping(ctx, func(ctx context.Context) error {
		answer, err := d.call(ctx, version, "Version", nil)
		text = answer.text(1)
		return err
	})
	return text, err
}

// explain gives a daemon's failure a class.
func explain(err error) error {
	if err == nil || sandbox.ClassOf(err) != sandbox.Internal || errors.Is(err, context.Canceled) {
		return err
	}
	class, ok := map[connect.Code]sandbox.Class{connect.CodeUnavailable: sandbox.Unavailable, connect.CodeDeadlineExceeded: sandbox.Timeout,
		connect.CodeResourceExhausted: sandbox.Exhausted, connect.CodeFailedPrecondition: sandbox.Conflict, connect.CodeAlreadyExists: sandbox.Conflict}[connect.CodeOf(err)]
	if !ok {
		return err
	}
	return &sandbox.Error{Class: class, Retry: class == sandbox.Unavailable, Err: err}
}

// gone says that what was asked for does not exist (any more).
func gone(err error) bool { return connect.CodeOf(err) == connect.CodeNotFound }

// away says that the daemon did not answer.
//
// A call whose connection breaks is told as cancelled, or as unknown, though nobody
// has ended it.
func away(err error) bool {
	var broken *net.OpError
	return connect.CodeOf(err) == connect.CodeUnavailable || errors.As(err, &broken) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

// untimely says that a task is not in a state for what was asked for.
func untimely(err error) bool { return connect.CodeOf(err) == connect.CodeFailedPrecondition }
