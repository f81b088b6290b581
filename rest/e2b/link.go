package e2b

import (
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"aether/guest"
)

// FileLink gives what makes URLs of files, at the address that a request came to: each lets one file
// of a sandbox be read, or written, until a time, by whoever has it. It is nil for requests
// over a unix socket, which no URL names.
func (d *Dialect) FileLink(r *http.Request) func(sandbox, path string, write bool, until time.Time) (string, error) {
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); !ok || at.Network() == "unix" {
		return nil
	}
	to := url.URL{Scheme: "http", Host: r.Host, Path: "/files"}
	if r.TLS != nil {
		to.Scheme = "https"
	}
	return func(sandbox, path string, write bool, until time.Time) (string, error) {
		operation, to := "read", to
		if write {
			operation = "write"
		}
		to.RawQuery = url.Values{"path": {path}, "signature_expiration": {strconv.FormatInt(until.Unix(), 10)},
			"signature": {guest.Sign(path, operation, "", d.tokens.access(sandbox), until.Unix())}}.Encode()
		return to.String(), nil
	}
}
