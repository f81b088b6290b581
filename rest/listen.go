package rest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"aether/engine"
	"aether/internal/host/storedir"
	"aether/sandbox"
)

// LocalTenant owns what operators make who come without a key.
const LocalTenant = "local"

// Listener is an address that a server answers at, and how callers are known there.
type Listener struct {
	net.Listener
	tls *tls.Config
	// identify knows a connection by itself; nil has every request bring a key.
	identify func(net.Conn) (engine.Caller, error)
	// open is for whoever comes: requests must at least be meant for this host.
	open bool
}

// ListenUnix listens at a path, in a directory of the caller's own. This user and root
// are operators there, and nobody else is answered. Errors: Conflict if somebody listens
// there already; Denied for the directory.
func ListenUnix(ctx context.Context, path string) (*Listener, error) {
	if err := storedir.Prepare(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, listenError(path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &Listener{Listener: l, identify: identifyPeer}, nil
}

// removeStale removes the socket of a program that has died.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return &sandbox.Error{Class: sandbox.Conflict, Op: "listen at " + path, Reason: "something that is no socket is there"}
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		return errors.Join(&sandbox.Error{Class: sandbox.Conflict, Op: "listen at " + path, Reason: "another program listens there"}, conn.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

var errStranger = errors.New("neither the daemon's user nor root")

// identifyPeer knows the user at the other end of a unix socket.
func identifyPeer(c net.Conn) (engine.Caller, error) {
	unix, ok := c.(*net.UnixConn)
	if !ok {
		return engine.Caller{}, fmt.Errorf("rest: %T has no peer", c)
	}
	uid, err := storedir.PeerUID(unix)
	if err != nil {
		return engine.Caller{}, err
	}
	if uid != os.Geteuid() && uid != 0 {
		return engine.Caller{}, errStranger
	}
	return engine.Caller{Tenant: LocalTenant, Operator: true, Name: "uid:" + strconv.Itoa(uid)}, nil
}

// ListenTCP listens for requests with keys. Without TLS, only the loopback will do.
// Errors: Denied for another address without TLS.
func ListenTCP(ctx context.Context, address string, config *tls.Config) (*Listener, error) {
	l, err := listenTCP(ctx, address, config == nil)
	if err != nil {
		return nil, err
	}
	return &Listener{Listener: l, tls: config}, nil
}

// ListenInsecure listens on the loopback, where everybody on this host is an operator.
func ListenInsecure(ctx context.Context, address string) (*Listener, error) {
	l, err := listenTCP(ctx, address, true)
	if err != nil {
		return nil, err
	}
	anybody := func(net.Conn) (engine.Caller, error) {
		return engine.Caller{Tenant: LocalTenant, Operator: true, Name: "insecure"}, nil
	}
	return &Listener{Listener: l, identify: anybody, open: true}, nil
}

func listenTCP(ctx context.Context, address string, plain bool) (net.Listener, error) {
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, &sandbox.Error{Class: sandbox.Invalid, Field: "listen", Err: err}
	}
	if plain && !at.IP.IsLoopback() {
		return nil, &sandbox.Error{Class: sandbox.Denied, Op: "listen at " + address, Reason: "keys and files would pass the network in the clear",
			Remedy: "listen on 127.0.0.1, or with TLS"}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", at.String())
	if err != nil {
		return nil, listenError(address, err)
	}
	return l, nil
}

func listenError(address string, err error) error {
	class := sandbox.Unavailable
	if errors.Is(err, syscall.EADDRINUSE) {
		class = sandbox.Conflict
	}
	return &sandbox.Error{Class: class, Op: "listen at " + address, Err: err}
}
