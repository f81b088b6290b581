package cli

import (
	"context"
	"errors"
	"net"
	"os"
)

// notifyVariable names the socket of the service manager, or of the command that has
// started a daemon.
const notifyVariable = "NOTIFY_SOCKET"

// notifyReady tells the service manager, if there is one, that this program serves: a
// datagram to the socket that it has named, as sd_notify(3) describes it.
func notifyReady(ctx context.Context) error {
	name := os.Getenv(notifyVariable)
	if name == "" {
		return nil
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unixgram", name)
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte("READY=1"))
	return errors.Join(err, conn.Close())
}
