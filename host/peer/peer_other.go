//go:build !linux

package peer

import (
	"errors"
	"net"
)

// UID is the user that made the other end of the connection.
func UID(*net.UnixConn) (int, error) { return 0, errors.ErrUnsupported }
