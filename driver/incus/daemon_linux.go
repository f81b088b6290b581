package incus

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"aether/driver/daemon"
	"aether/sandbox"
)

const (
	socketVariable = "INCUS_SOCKET"
	dirVariable    = "INCUS_DIR"
	socketName     = "unix.socket"
)

// defaultDirs are where daemons have their socket, the first that exists.
var defaultDirs = []string{"/run/incus", "/var/lib/incus"}

// address is the daemon's socket.
func (o Options) address() string {
	if o.Socket != "" {
		return o.Socket
	}
	if named := os.Getenv(socketVariable); named != "" {
		return named
	}
	if dir := os.Getenv(dirVariable); dir != "" {
		return filepath.Join(dir, socketName)
	}
	var path string
	for _, dir := range defaultDirs {
		path = filepath.Join(dir, socketName)
		if _, err := os.Lstat(path); err == nil {
			break
		}
	}
	return path
}

// server is what a daemon says of itself.
type server struct {
	Auth        string `json:"auth"`
	Environment struct {
		Driver    string `json:"driver"`
		Version   string `json:"server_version"`
		Clustered bool   `json:"server_clustered"`
	} `json:"environment"`
}

// ping asks the daemon who it is. Errors: Unavailable.
func (c *client) ping(ctx context.Context) (s server, err error) {
	daemon := daemon.Daemon{Socket: c.socket, Name: "the Incus daemon", Unit: "incus",
		Install: "install the package incus and start it, or set " + socketVariable,
		Allow:   "run as root, or as a member of the group incus-admin"}
	err = daemon.Ping(ctx, func(ctx context.Context) error { return c.get(ctx, "/1.0", &s) })
	switch {
	case err != nil:
		return s, err
	case s.Auth != "trusted":
		return s, &sandbox.Error{Class: sandbox.Unavailable, Reason: "the daemon does not trust this user", Remedy: daemon.Allow}
	case s.Environment.Clustered:
		return s, &sandbox.Error{Class: sandbox.Unavailable, Reason: "the daemon belongs to a cluster, which may put a container on another host",
			Remedy: "use a daemon that is alone"}
	case !slices.Contains(strings.Split(s.Environment.Driver, " | "), "lxc"):
		return s, &sandbox.Error{Class: sandbox.Unavailable, Reason: "the daemon makes no containers",
			Remedy: "install LXC for it and restart it (systemctl restart incus)"}
	}
	return s, nil
}

// pool is where roots are kept.
type pool struct {
	Name   string `json:"name"`
	Driver string `json:"driver"`
}

// bounding are the kinds of pools that hold a bound on each root. Plain
// directories would need project quotas, of which the daemon does not tell, and
// without which it passes over the bound.
var bounding = []string{"btrfs", "zfs", "lvm", "ceph"}

func (p pool) bounds() bool { return slices.Contains(bounding, p.Driver) }

// pool finds where to keep roots. Errors: Unavailable.
func (c *client) pool(ctx context.Context, wanted string) (p pool, err error) {
	if wanted == "" {
		if wanted, err = c.defaultPool(ctx); err != nil {
			return p, err
		}
	}
	err = c.get(ctx, "/1.0/storage-pools/"+url.PathEscape(wanted), &p)
	if gone(err) {
		return p, noPool("the daemon has no storage pool " + wanted)
	}
	return p, err
}

func noPool(reason string) error {
	return &sandbox.Error{Class: sandbox.Unavailable, Reason: reason, Remedy: "run incus admin init, or incus storage create default dir"}
}

// defaultPool is that of the default profile, or the only one there is.
func (c *client) defaultPool(ctx context.Context) (string, error) {
	var profile struct {
		Devices map[string]map[string]string `json:"devices"`
	}
	if err := c.get(ctx, "/1.0/profiles/default", &profile); err != nil && !gone(err) {
		return "", err
	}
	for _, device := range profile.Devices {
		if device["type"] == "disk" && device["path"] == "/" && device["pool"] != "" {
			return device["pool"], nil
		}
	}
	var pools []pool
	if err := c.get(ctx, "/1.0/storage-pools?recursion=1", &pools); err != nil {
		return "", err
	}
	switch len(pools) {
	case 0:
		return "", noPool("the daemon has no storage pool")
	case 1:
		return pools[0].Name, nil
	}
	return "", noPool("the daemon has several storage pools, and its profile default names none of them")
}

// explain gives a daemon's failure a class.
func explain(err error) error {
	var r *refusal
	var n *nonsense
	var u *url.Error // no answer at all
	switch {
	case err == nil, sandbox.ClassOf(err) != sandbox.Internal, errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &u), errors.Is(err, io.ErrUnexpectedEOF):
		return &sandbox.Error{Class: sandbox.Unavailable, Reason: "the daemon went away", Retry: true, Err: err}
	case errors.As(err, &n):
		return &sandbox.Error{Class: sandbox.Unavailable, Err: err}
	case !errors.As(err, &r):
		return err
	case r.code == http.StatusForbidden, r.code == http.StatusUnauthorized:
		return &sandbox.Error{Class: sandbox.Denied, Err: err}
	case r.code == http.StatusConflict:
		return &sandbox.Error{Class: sandbox.Conflict, Err: err}
	case r.code == http.StatusServiceUnavailable:
		return &sandbox.Error{Class: sandbox.Unavailable, Retry: true, Err: err}
	case says(r, syscall.ENOSPC.Error()):
		return &sandbox.Error{Class: sandbox.Exhausted, Reason: "the disk of the daemon is full", Retry: true, Err: err}
	case says(r, "not enough uid/gid"):
		return &sandbox.Error{Class: sandbox.Exhausted, Reason: "the daemon has no user ids left", Remedy: "give root more in /etc/subuid and /etc/subgid", Err: err}
	}
	return err
}

func says(r *refusal, words string) bool {
	return strings.Contains(strings.ToLower(r.text), strings.ToLower(words))
}
