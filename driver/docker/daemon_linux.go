package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"syscall"

	"aether/driver/daemon"
	"aether/sandbox"
)

const (
	hostVariable = "DOCKER_HOST"
	defaultHost  = "unix:///var/run/docker.sock"
)

// address is the daemon's socket. Errors: Unavailable for a daemon elsewhere: it
// could not be shown files of this host.
func (o Options) address() (string, error) {
	host := o.Host
	if host == "" {
		host = os.Getenv(hostVariable)
	}
	if host == "" {
		host = defaultHost
	}
	path, ok := strings.CutPrefix(host, "unix://")
	if !ok || path == "" {
		return "", &sandbox.Error{Class: sandbox.Unavailable, Reason: fmt.Sprintf("the daemon's address %.80q is not a socket of this host", host),
			Remedy: "set DOCKER_HOST to unix:///path/of/docker.sock"}
	}
	return path, nil
}

// ping asks for a sign of life. Errors: Unavailable.
func (c *client) ping(ctx context.Context) error {
	daemon := daemon.Daemon{Socket: c.socket, Name: "the Docker daemon", Unit: "docker",
		Install: "install the package docker.io and start it, or set DOCKER_HOST",
		Allow:   "run as root, or as a member of the group docker"}
	return daemon.Ping(ctx, c.negotiate)
}

// explain gives a daemon's failure a class.
func explain(err error) error {
	var unanswered *url.Error
	switch {
	case err == nil, sandbox.ClassOf(err) != sandbox.Internal, errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &unanswered), errors.Is(err, io.ErrUnexpectedEOF):
		return &sandbox.Error{Class: sandbox.Unavailable, Reason: "the daemon went away", Retry: true, Err: err}
	case conflicts(err):
		return &sandbox.Error{Class: sandbox.Conflict, Err: err}
	case errors.Is(err, syscall.ENOSPC), strings.Contains(err.Error(), syscall.ENOSPC.Error()):
		return &sandbox.Error{Class: sandbox.Exhausted, Reason: "the disk of the daemon is full", Retry: true, Err: err}
	}
	return err
}
