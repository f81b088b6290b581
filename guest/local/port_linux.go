package local

import (
	"context"
	"errors"
	"net"
	"strconv"
	"syscall"

	"aether/guest"
)

// Connect connects to this process's own loopback, of version 4 or else of version 6.
func (b *Backend) Connect(ctx context.Context, port uint16) (net.Conn, error) {
	var dialer net.Dialer
	at := strconv.Itoa(int(port))
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", at))
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return conn, err
	}
	if conn, six := dialer.DialContext(ctx, "tcp", net.JoinHostPort("::1", at)); six == nil {
		return conn, nil
	}
	return nil, guest.NoListener(port, err)
}
