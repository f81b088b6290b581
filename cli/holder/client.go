package holder

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"aether/engine"
	"aether/internal/bounded"
	"aether/internal/host/storedir"
	"aether/sandbox"
)

// Client speaks to the holder of one template. It may be used by many at once.
type Client struct {
	socket string
	name   string
	http   *http.Client
}

// Dial connects to the holder of a template. Errors: NotFound if there is no such
// template; Unavailable if its holder has died.
func (d Dir) Dial(ctx context.Context, name string) (*Client, error) {
	if err := engine.ValidName(name); err != nil {
		return nil, err
	}
	c := &Client{socket: d.socket(name), name: name}
	c.http = &http.Client{Transport: &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return c.connect(ctx) },
		DisableCompression: true, MaxIdleConnsPerHost: 8, MaxResponseHeaderBytes: maxHeader,
	}}
	conn, err := c.connect(ctx)
	switch {
	case err == nil:
		return c, conn.Close()
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		if _, missing := os.Stat(d.of(name)); missing != nil {
			return nil, d.notFound(name)
		}
		return nil, &sandbox.Error{Class: sandbox.Unavailable, Op: "template " + name, Reason: "its holder has died, or is not ready yet",
			Remedy: fmt.Sprintf("aether template show %s, then prepare it anew", name)}
	}
	return nil, err
}

func (c *Client) connect(ctx context.Context) (net.Conn, error) {
	conn, err := storedir.Dial(ctx, c.socket)
	if err != nil {
		return nil, err // not a connection that is nil
	}
	return conn, nil
}

// Close closes the connections that are idle.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Info asks what the template is and does.
func (c *Client) Info(ctx context.Context) (info Info, err error) {
	return info, c.call(ctx, http.MethodGet, "/template", nil, &info)
}

// End asks the holder to end, which it then does.
func (c *Client) End(ctx context.Context) error {
	return c.call(ctx, http.MethodDelete, "/template", nil, nil)
}

// answerTime bounds how long a holder may take to answer, forks apart.
const answerTime = 20 * time.Second

// call makes a request and reads the answer into the value, unless it is nil.
func (c *Client) call(ctx context.Context, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	res, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if into == nil {
		return nil
	}
	return json.NewDecoder(&bounded.Reader{From: res.Body, What: "the answer of its holder", Max: maxAnswer}).Decode(into)
}

// send gives the answer of a request that succeeded.
func (c *Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://holder"+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, &sandbox.Error{Class: sandbox.Unavailable, Op: "template " + c.name, Reason: "its holder does not answer", Err: err}
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	return nil, readFailure(res)
}

func readFailure(res *http.Response) error {
	var f Failure
	if err := json.NewDecoder(io.LimitReader(res.Body, maxRequest)).Decode(&f); err != nil {
		return &sandbox.Error{Op: "holder", Reason: "its answer " + res.Status + " cannot be read", Err: err}
	}
	return f.Err()
}

// upgrade makes a connection that the holder hands through.
func (c *Client) upgrade(ctx context.Context, path string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	through, err := switchProtocols(conn, path)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return through, nil
}

func switchProtocols(conn net.Conn, path string) (net.Conn, error) {
	req, err := http.NewRequest(http.MethodPost, "http://holder"+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", upgradeName)
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	head := &bounded.Reader{From: conn, What: "the answer of its holder", Max: maxHeader}
	reader := bufio.NewReader(head)
	res, err := http.ReadResponse(reader, req)
	if err != nil {
		return nil, err
	}
	head.Max = math.MaxInt64 // what follows is the guest's, whom its client bounds
	if res.StatusCode != http.StatusSwitchingProtocols {
		defer res.Body.Close()
		return nil, readFailure(res)
	}
	return &through{conn, reader}, nil
}

// through is a connection of which some bytes were read ahead.
type through struct {
	net.Conn
	reader *bufio.Reader
}

func (t *through) Read(p []byte) (int, error) { return t.reader.Read(p) }
