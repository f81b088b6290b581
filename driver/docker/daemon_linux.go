package docker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"aether/driver/daemon"
	"aether/sandbox"
)

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

// ping asks for a sign of life. Errors: Unavailable.
func ping(ctx context.Context, api *client.Client, socket string) error {
	daemon := daemon.Daemon{Socket: socket, Name: "the Docker daemon", Unit: "docker",
		Install: "install the package docker.io and start it, or set DOCKER_HOST",
		Allow:   "run as root, or as a member of the group docker"}
	return daemon.Ping(ctx, func(ctx context.Context) error {
		_, err := api.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
		return err
	})
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
