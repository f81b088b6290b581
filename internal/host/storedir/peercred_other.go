//go:build !linux

package storedir

import (
	"errors"
	"net"
)

// PeerUID is the user that made the other end of the connection.
func PeerUID(*net.UnixConn) (int, error) { return 0, errors.ErrUnsupported }
