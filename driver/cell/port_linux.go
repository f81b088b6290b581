package cell

import (
	"context"
	"errors"
	"net"
	"strconv"
	"syscall"

	"aether/guest"
	"aether/internal/host/netdev"
	"aether/sandbox"
)

// Connect implements guest.Backend.
func (b backend) Connect(ctx context.Context, port uint16) (conn net.Conn, err error) {
	if err := b.Alive(); err != nil {
		return nil, err
	}
	if b.spec.Network.Mode == sandbox.HostNetwork {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("localhost", strconv.Itoa(int(port))))
	} else {
		conn, err = netdev.DialLoopback(ctx, func(use func(netdev.Way) error) error {
			return b.cell.WithNetwork(func(fd int) error { return use(netdev.By(fd, b.cell.OwnsNetwork())) })
		}, port)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, guest.NoListener(port, err)
	}
	return conn, err
}
