package rest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"aether/internal/bounded"
	"aether/internal/host/storedir"
	"aether/sandbox"
)

const (
	maxAnswer  = 64 << 20
	maxRefusal = 64 << 10
	idleConns  = 64
)

// ClientOptions say where a daemon is and who calls it.
type ClientOptions struct {
	// URL is http://, https:// or unix:// with the path of a socket.
	URL string
	// Key says who calls. Over the socket of a daemon of this user none is needed.
	Key string
	// Authorities are trusted instead of the system's, as the local one of a daemon.
	Authorities *x509.CertPool
}

// Client speaks to a daemon: its methods are those of the engine there, for the caller
// that its key or its socket says. It may be used by many at once.
type Client struct {
	base *url.URL
	key  string
	http *http.Client
}

// NewClient makes a client, which connects when it is used. Errors: Invalid for the URL;
// Denied for a key that would pass the network in the clear.
func NewClient(opts ClientOptions) (*Client, error) {
	base, err := url.Parse(opts.URL)
	if err != nil {
		return nil, sandbox.Invalidf("url", "%.200s", err)
	}
	transport := &http.Transport{DisableCompression: true, MaxResponseHeaderBytes: maxHeader, MaxIdleConns: idleConns,
		MaxIdleConnsPerHost: idleConns, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second}
	dial := new(net.Dialer).DialContext
	switch {
	case base.Scheme == "unix" && base.Host == "" && base.Path != "":
		socket := base.Path
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return storedir.DialTrusted(ctx, socket) }
		base = &url.URL{Scheme: "http", Host: "aether"}
	case base.Scheme == "https" && base.Host != "":
		transport.TLSClientConfig = &tls.Config{RootCAs: opts.Authorities, MinVersion: tls.VersionTLS12}
	case base.Scheme == "http" && base.Host != "":
		if opts.Key != "" && !namesLoopback(base.Host) {
			return nil, &sandbox.Error{Class: sandbox.Denied, Field: "url", Reason: "the key would pass the network in the clear", Remedy: "use https://"}
		}
	default:
		return nil, sandbox.Invalidf("url", "%.200q is not of the form unix:///PATH, http://HOST:PORT or https://HOST:PORT", opts.URL)
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	return &Client{base: base, key: opts.Key, http: &http.Client{Transport: newRefusable(transport, dial), CheckRedirect: stay}}, nil
}

// stay follows no redirection: it would carry the key elsewhere.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Close closes the connections that are idle.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Health asks whether a daemon answers, which needs no key.
func (c *Client) Health(ctx context.Context) error {
	return c.do(ctx, call{op: "health", method: http.MethodGet, path: "/health"})
}

// call is one request of the client's.
type call struct {
	op           string
	method, path string
	query        string
	headers      map[string]string
	takes        any // sent as JSON, unless nil
	gives        any // read as JSON, unless nil
}

func (c *Client) do(ctx context.Context, what call) error {
	res, err := c.send(ctx, what)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if what.gives == nil {
		return nil
	}
	text, err := bounded.ReadAll(res.Body, "the daemon's answer", maxAnswer)
	if err != nil {
		return c.failed(ctx, what.op, err)
	}
	if err := json.Unmarshal(text, what.gives); err != nil {
		return fmt.Errorf("%s: the daemon's answer: %w", what.op, err)
	}
	return nil
}

// send gives the answer to a request that was not refused.
func (c *Client) send(ctx context.Context, what call) (*http.Response, error) {
	req, err := c.request(ctx, what)
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.failed(ctx, what.op, err)
	}
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return res, nil
	}
	return nil, errors.Join(readRefusal(what.op, res), res.Body.Close())
}

func (c *Client) request(ctx context.Context, what call) (*http.Request, error) {
	var body io.Reader
	if what.takes != nil {
		text, err := json.Marshal(what.takes)
		if err != nil {
			return nil, &sandbox.Error{Class: sandbox.Invalid, Op: what.op, Err: err}
		}
		body = bytes.NewReader(text)
	}
	to := *c.base
	to.Path, to.RawQuery = to.Path+what.path, what.query
	req, err := http.NewRequestWithContext(ctx, what.method, to.String(), body)
	if err != nil {
		return nil, &sandbox.Error{Class: sandbox.Invalid, Op: what.op, Err: err}
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range what.headers {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	c.identify(req)
	return req, nil
}

func (c *Client) identify(req *http.Request) {
	if c.key != "" {
		req.Header.Set(keyHeader, c.key)
	}
}

// failed is an error of the way to the daemon. The context's own stay what they are.
func (c *Client) failed(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if sandbox.ClassOf(err) != sandbox.Internal {
		return fmt.Errorf("%s: %w", op, err)
	}
	return &sandbox.Error{Class: sandbox.Unavailable, Op: op, Reason: "the daemon does not answer", Remedy: "see that it runs: aether serve", Retry: true, Err: err}
}

// readRefusal reads what the daemon says, or at least its status.
func readRefusal(op string, res *http.Response) error {
	text, err := bounded.ReadAll(res.Body, "the daemon's refusal", maxRefusal)
	var f Failure
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err != nil || f.Class == "" {
		return &sandbox.Error{Class: classOfStatus(res.StatusCode), Op: op, Reason: "the daemon answers " + res.Status, Err: err}
	}
	return errorOf(op, f)
}

func classOfStatus(status int) sandbox.Class {
	if status == http.StatusUnauthorized {
		return sandbox.Denied
	}
	for class, s := range statuses {
		if s == status {
			return sandbox.Class(class)
		}
	}
	return sandbox.Internal
}
