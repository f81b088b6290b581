package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"aether/internal/bounded"
	"aether/sandbox"
)

// maxRefusal bounds what is read of why something was not done.
const maxRefusal = 4 << 10

// dial opens a connection to a guest, as sandbox.Instance.Dial does.
type dial = func(context.Context) (net.Conn, error)

// Post has a guest do something that is answered by nothing but its success, over a
// connection of its own. Errors: Unsupported if the guest has no such path, Exhausted if it
// has no room.
func Post(ctx context.Context, dial dial, path string, body io.Reader) error {
	return post(ctx, newHTTPClient(dial, false), path, body)
}

// Poster posts over one connection, one request after another.
type Poster struct{ client *http.Client }

// NewPoster makes one, which dials when it is needed.
func NewPoster(dial func(context.Context) (net.Conn, error)) *Poster {
	return &Poster{newHTTPClient(dial, true)}
}

// Post is as the function of that name.
func (p *Poster) Post(ctx context.Context, path string, body io.Reader) error {
	return post(ctx, p.client, path, body)
}

// Close gives the connection up.
func (p *Poster) Close() { p.client.CloseIdleConnections() }

func post(ctx context.Context, client *http.Client, path string, body io.Reader) error {
	res, err := call(ctx, client, http.MethodPost, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNoContent {
		return nil
	}
	return refusal(path, res)
}

// WholeTrailer comes after a stream that Fetch reads, and says that nothing is missing of
// it, or why.
const (
	WholeTrailer = "Aether-Whole"
	Whole        = "yes"
)

// Fetch copies a stream of a guest that is no longer than a bound. Errors: as Post;
// Exhausted for a longer one.
func Fetch(ctx context.Context, dial dial, path string, to io.Writer, most int64) error {
	res, err := call(ctx, newHTTPClient(dial, false), http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return refusal(path, res)
	}
	_, err = io.Copy(to, &bounded.Reader{From: res.Body, What: "what the guest sends", Max: most})
	if long := (*bounded.TooLong)(nil); errors.As(err, &long) {
		return &sandbox.Error{Class: sandbox.Exhausted, Op: "guest: " + path, Err: err}
	}
	if err != nil {
		return fmt.Errorf("guest: %s: %w", path, err)
	}
	if said := res.Trailer.Get(WholeTrailer); said != Whole {
		return &sandbox.Error{Class: sandbox.Internal, Op: "guest: " + path, Reason: fmt.Sprintf("the guest broke off: %.200q", said)}
	}
	return nil
}

func newHTTPClient(dial dial, stays bool) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableKeepAlives:      !stays,
		DisableCompression:     true,
		MaxIdleConns:           1,
		MaxResponseHeaderBytes: maxHeader,
	}, CheckRedirect: stay}
}

func call(ctx context.Context, client *http.Client, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, clientURL+path, body)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("guest: %s: %w", path, err)
	}
	return res, nil
}

func refusal(path string, res *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(res.Body, maxRefusal))
	if err != nil {
		return fmt.Errorf("guest: %s: %w", path, err)
	}
	class := sandbox.Internal
	switch res.StatusCode {
	case http.StatusNotFound:
		class = sandbox.Unsupported
	case http.StatusInsufficientStorage:
		class = sandbox.Exhausted
	}
	return &sandbox.Error{Class: class, Op: "guest: " + path, Reason: res.Status + ": " + strings.TrimSpace(string(text))}
}
