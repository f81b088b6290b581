//go:build unix

package storedir

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"aether/sandbox"
)

// Dial connects to a socket of the caller's own: what is sent there are commands.
// Errors: Denied if somebody else could have put it there, or is at its other end;
// those of the network.
func Dial(ctx context.Context, path string) (*net.UnixConn, error) {
	if err := Trusted(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return DialTrusted(ctx, path)
}

// DialTrusted connects to a socket that somebody else has chosen the place of, as of a
// daemon. Errors: Denied unless the caller or root listens there; those of the network.
func DialTrusted(ctx context.Context, path string) (*net.UnixConn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("storedir: %s is a %T", path, conn), conn.Close())
	}
	uid, err := PeerUID(unix)
	if err == nil && !trustedUser(uid) {
		err = &sandbox.Error{Class: sandbox.Denied, Op: "connect to " + path, Reason: fmt.Sprintf("user %d listens there", uid)}
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close())
	}
	return unix, nil
}
