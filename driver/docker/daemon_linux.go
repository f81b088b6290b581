package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"aether/sandbox"
)

// answerTime is how long a daemon may take to say that it is there.
const answerTime = 1500 * time.Millisecond

// address is the daemon's socket. Errors: Unavailable for a daemon elsewhere: it
// could not be shown files of this host.
func (o Options) address() (string, error) {
	host := o.Host
	if host == "" {
		host = os.Getenv(client.EnvOverrideHost)
	}
	if host == "" {
		host = client.DefaultDockerHost
	}
	path, ok := strings.CutPrefix(host, "unix://")
	if !ok || path == "" {
		return "", &sandbox.Error{Class: sandbox.Unavailable, Reason: fmt.Sprintf("the daemon's address %.80q is not a socket of this host", host),
			Remedy: "set DOCKER_HOST to unix:///path/of/docker.sock"}
	}
	return path, nil
}

// connect makes a client of the daemon. No connection is kept between requests:
// a new one costs little, and none is left when the driver is closed.
func connect(socket string, more ...client.Opt) (*client.Client, error) {
	opts := append([]client.Opt{
		client.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: client.CheckRedirect}),
		client.WithHost("unix://" + socket), client.WithScheme("http"),
	}, more...)
	return client.New(opts...)
}

// ping asks for a sign of life. Errors: Unavailable, also for a daemon that takes
// a connection and does not answer.
func ping(ctx context.Context, api *client.Client, socket string) error {
	limited, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err := api.Ping(limited, client.PingOptions{NegotiateAPIVersion: true})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return unavailable(socket, err, limited.Err() != nil)
}

func unavailable(socket string, err error, late bool) error {
	e := &sandbox.Error{Class: sandbox.Unavailable, Retry: true, Reason: "the daemon at " + socket + " cannot be used", Err: err}
	// The client hides why a connection failed, so the socket is asked itself.
	conn, dialed := net.DialTimeout("unix", socket, answerTime/10)
	if dialed == nil {
		dialed = conn.Close()
	}
	switch {
	case errors.Is(dialed, fs.ErrNotExist):
		e.Reason, e.Remedy, e.Err = "there is no Docker daemon: "+socket+" does not exist", "install the package docker.io and start it, or set DOCKER_HOST", nil
	case errors.Is(dialed, fs.ErrPermission):
		e.Reason, e.Remedy, e.Err = "this user may not use "+socket, "run as root, or as a member of the group docker", nil
	case errors.Is(dialed, syscall.ECONNREFUSED):
		e.Reason, e.Remedy, e.Err = "the Docker daemon is down: nobody listens at "+socket, "start it (systemctl start docker)", nil
	case late:
		e.Reason, e.Remedy, e.Err = "the daemon at "+socket+" does not answer", "look at its log and restart it (systemctl restart docker)", nil
	}
	return e
}

// explain gives a daemon's failure a class.
func explain(err error) error {
	switch {
	case err == nil, sandbox.ClassOf(err) != sandbox.Internal, errors.Is(err, context.Canceled):
		return err
	case client.IsErrConnectionFailed(err):
		return &sandbox.Error{Class: sandbox.Unavailable, Reason: "the daemon went away", Retry: true, Err: err}
	case conflicts(err):
		return &sandbox.Error{Class: sandbox.Conflict, Err: err}
	case errors.Is(err, syscall.ENOSPC), strings.Contains(err.Error(), syscall.ENOSPC.Error()):
		return &sandbox.Error{Class: sandbox.Exhausted, Reason: "the disk of the daemon is full", Retry: true, Err: err}
	}
	return err
}

// gone says that what was asked for does not exist (any more).
func gone(err error) bool { return errdefs.IsNotFound(err) }

// conflicts says that it is not in a state for what was asked for.
func conflicts(err error) bool { return errdefs.IsConflict(err) }
