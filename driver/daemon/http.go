package daemon

import (
	"context"
	"net"
	"net/http"

	"aether/internal/host/storedir"
)

// MaxHeader bounds the headers of a daemon's answer.
const MaxHeader = 64 << 10

// HTTP makes a client of a daemon that is asked over HTTP at a socket. It keeps no
// connection between requests: a new one costs little, and none is left when the
// driver is closed. It follows no redirection.
func HTTP(socket string) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return Dial(ctx, socket)
	}
	return &http.Client{
		Transport:     &http.Transport{DialContext: dial, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: MaxHeader},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Dial connects to a daemon. Errors: Denied unless it runs as root or as this user;
// those of the network.
func Dial(ctx context.Context, socket string) (net.Conn, error) {
	conn, err := storedir.DialTrusted(ctx, socket)
	if err != nil {
		return nil, err // not a connection that is nil
	}
	return conn, nil
}
