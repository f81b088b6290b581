package rest

import (
	"context"
	"errors"
	"net/http"

	"aether/guest"
)

// Guest gives a client of the guest service of a sandbox, whose requests go by way of the
// daemon. The function releases it. Errors: those of Get; a sandbox that is paused is
// resumed by the first request.
func (c *Client) Guest(ctx context.Context, id string) (*guest.Client, func(), error) {
	if _, err := c.Get(ctx, id); err != nil {
		return nil, nil, err
	}
	return c.GuestOf(id, guest.ClientOptions{}), func() {}, nil
}

// GuestOf is Guest without asking whether there is such a sandbox: the first request
// tells. It is for those who have just made it, and holds nothing to be released.
func (c *Client) GuestOf(id string, opts guest.ClientOptions) *guest.Client {
	return guest.NewClientOver(&carrier{c, id}, opts)
}

// carrier carries the requests of a guest client to the daemon.
type carrier struct {
	client *Client
	id     string
}

// RoundTrip implements http.RoundTripper. What the door refuses is an error with its
// class; everything else is the guest's answer.
func (c *carrier) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	to := *c.client.base
	to.Path, to.RawQuery = to.Path+at(c.id, "guest", req.URL.Path), req.URL.RawQuery
	out.URL, out.Host = &to, ""
	c.client.identify(out)
	res, err := c.client.http.Transport.RoundTrip(out)
	if err != nil {
		return nil, c.client.failed(req.Context(), "guest of "+c.id, err)
	}
	if res.Header.Get(errorHeader) == "" {
		return res, nil
	}
	return nil, errors.Join(readRefusal("guest of "+c.id, res), res.Body.Close())
}
