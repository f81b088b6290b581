package containerd

import (
	"context"
	"errors"
	"net"
	"os"

	"github.com/containerd/containerd/api/services/containers/v1"
	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/services/version/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"aether/driver/daemon"
	"aether/sandbox"
)

const (
	addressVariable = "CONTAINERD_ADDRESS"
	defaultAddress  = "/run/containerd/containerd.sock"
	// namespace keeps what is ours apart from what others have at the daemon.
	namespace       = "aether"
	namespaceHeader = "containerd-namespace"
)

func (o Options) address() string {
	for _, address := range []string{o.Address, os.Getenv(addressVariable)} {
		if address != "" {
			return address
		}
	}
	return defaultAddress
}

// client is a connection to containerd.
type client struct {
	socket     string
	conn       *grpc.ClientConn
	tasks      tasks.TasksClient
	containers containers.ContainersClient
	version    version.VersionClient
}

// connect makes a client of the daemon; close gives it back. It waits for nobody.
func connect(socket string) (*client, error) {
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	conn, err := grpc.NewClient("passthrough:containerd", grpc.WithContextDialer(dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(inNamespace))
	if err != nil {
		return nil, err
	}
	return &client{socket: socket, conn: conn, tasks: tasks.NewTasksClient(conn),
		containers: containers.NewContainersClient(conn), version: version.NewVersionClient(conn)}, nil
}

func (d *client) close() error { return d.conn.Close() }

// inNamespace tells the daemon for whom each request is.
func inNamespace(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoke(metadata.AppendToOutgoingContext(ctx, namespaceHeader, namespace), method, req, reply, conn, opts...)
}

// ping asks for a sign of life, which is a version. Errors: Unavailable.
func (d *client) ping(ctx context.Context) (text string, err error) {
	where := daemon.Daemon{Socket: d.socket, Name: "containerd", Unit: "containerd",
		Install: "install the package containerd and start it, or set " + addressVariable, Allow: "run as root"}
	err = where.Ping(ctx, func(ctx context.Context) error {
		answer, err := d.version.Version(ctx, &emptypb.Empty{})
		text = answer.GetVersion()
		return err
	})
	return text, err
}

// explain gives a daemon's failure a class.
func explain(err error) error {
	if err == nil || sandbox.ClassOf(err) != sandbox.Internal || errors.Is(err, context.Canceled) {
		return err
	}
	class, ok := map[codes.Code]sandbox.Class{codes.Unavailable: sandbox.Unavailable, codes.DeadlineExceeded: sandbox.Timeout,
		codes.ResourceExhausted: sandbox.Exhausted, codes.FailedPrecondition: sandbox.Conflict, codes.AlreadyExists: sandbox.Conflict}[status.Code(err)]
	if !ok {
		return err
	}
	return &sandbox.Error{Class: class, Retry: class == sandbox.Unavailable, Err: err}
}

// gone says that what was asked for does not exist (any more).
func gone(err error) bool { return status.Code(err) == codes.NotFound }

// away says that the daemon did not answer.
func away(err error) bool { return status.Code(err) == codes.Unavailable }
