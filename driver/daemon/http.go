package daemon

import (
	"context"
	"net"
	"net/http"
)

// MaxHeader bounds the headers of a daemon's answer.
const MaxHeader = 64 << 10

// HTTP makes a client of a daemon that is asked over HTTP at a socket. It keeps no
// connection between requests: a new one costs little, and none is left when the
// driver is closed. It follows no redirection.
func HTTP(socket string) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	return &http.Client{
		Transport:     &http.Transport{DialContext: dial, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: MaxHeader},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
