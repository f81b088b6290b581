package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"aether/sandbox"
	"aether/tool"
)

const (
	// maxReply bounds the bytes of an answer.
	maxReply = 8 << 20
	// tries is how often a model is asked for one turn.
	tries = 5
	// maxPause bounds what a provider can have us wait for.
	maxPause = time.Minute
	// replyTime bounds one answer.
	replyTime = 10 * time.Minute
)

// Provider is where a model is reached.
type Provider struct {
	// Name is one of Providers, and Model what that calls the model.
	Name, Model string
	// Base replaces the provider's address, for one that speaks the same. It is https, or
	// of this host's loopback.
	Base string
	Key  string
}

// Providers lists the names of those that are known.
func Providers() []string { return slices.Sorted(maps.Keys(wires)) }

// ParseModel reads PROVIDER/NAME. Errors: Invalid.
func ParseModel(text string) (Provider, error) {
	provider, model, ok := strings.Cut(text, "/")
	if _, known := wires[provider]; !ok || !known || model == "" || len(model) > 200 {
		return Provider{}, sandbox.Invalidf("model", "%.80q is not PROVIDER/NAME, with one of %s", text, strings.Join(Providers(), ", "))
	}
	return Provider{Name: provider, Model: model}, nil
}

// client is a model that is reached over HTTP.
type client struct {
	wire
	Provider
	url  string
	http *http.Client
	// pause is half of the first wait, where the provider does not say how long.
	pause time.Duration
}

// Open is the model of a provider. Nothing is sent yet. Errors: Invalid.
func Open(p Provider) (Model, error) {
	w, ok := wires[p.Name]
	if !ok {
		return nil, sandbox.Invalidf("model", "%.40q is not one of %s", p.Name, strings.Join(Providers(), ", "))
	}
	if p.Key == "" {
		return nil, sandbox.Invalidf("key", "%s wants one", p.Name)
	}
	base := strings.TrimSuffix(cmp.Or(p.Base, w.base), "/")
	if err := checkBase(base); err != nil {
		return nil, err
	}
	// A key goes where it was sent to, and nowhere that this redirects to.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client{w, p, base + w.path(p.Model), &http.Client{Timeout: replyTime, CheckRedirect: stay}, 500 * time.Millisecond}, nil
}

// checkBase refuses to send keys in the clear.
func checkBase(base string) error {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return sandbox.Invalidf("base-url", "%.80q is no address of a service", base)
	}
	addr, err := netip.ParseAddr(u.Hostname())
	loopback := u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
	if u.Scheme != "https" && !(u.Scheme == "http" && loopback) {
		return sandbox.Invalidf("base-url", "%.80q is neither https nor of this host's loopback: the key would be sent in the clear", base)
	}
	return nil
}

// Format implements Model.
func (c *client) Format() tool.Format { return c.format }

// Next implements Model.
func (c *client) Next(ctx context.Context, conversation Conversation) (Reply, error) {
	body, err := json.Marshal(c.body(c.Model, conversation))
	if err != nil {
		return Reply{}, err
	}
	for try := 1; ; try++ {
		text, pause, err := c.ask(ctx, body, conversation.Hear)
		if err == nil {
			return c.reply(text)
		}
		var e *sandbox.Error
		if !errors.As(err, &e) || !e.Retry || try == tries || ctx.Err() != nil {
			return Reply{}, err
		}
		if pause < 0 {
			pause = time.Duration(float64(c.pause<<try) * (0.5 + rand.Float64()/2))
		}
		select {
		case <-time.After(min(pause, maxPause)):
		case <-ctx.Done():
			return Reply{}, context.Cause(ctx)
		}
	}
}

func (c *client) reply(text []byte) (Reply, error) {
	r, err := c.read(text)
	if err != nil {
		return r, err
	}
	if r.Calls, err = tool.Calls(c.format, r.Message); err != nil {
		return r, unreadable(err)
	}
	return r, nil
}

// ask sends a request once. A failure that may pass says so, and after how long, where
// the provider does; else the pause is negative.
func (c *client) ask(ctx context.Context, body []byte, hear func(string)) (text []byte, pause time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, -1, err
	}
	req.Header.Set("Content-Type", "application/json")
	c.sign(req.Header, c.Key)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, -1, c.unreached(ctx, err)
	}
	defer resp.Body.Close()
	from := &io.LimitedReader{R: resp.Body, N: maxReply + 1}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); resp.StatusCode == http.StatusOK && kind == "text/event-stream" {
		if hear == nil {
			hear = func(string) {}
		}
		text, err = assemble(from, c.stream(), hear)
	} else {
		text, err = io.ReadAll(from) // as some answer though they were asked for a stream
	}
	var classed *sandbox.Error
	switch {
	case from.N <= 0:
		return nil, -1, &sandbox.Error{Class: sandbox.Exhausted, Reason: "the model's answer has more than 8 MiB"}
	case errors.As(err, &classed):
		return nil, -1, err
	case err != nil:
		return nil, -1, c.unreached(ctx, err)
	case resp.StatusCode == http.StatusOK:
		return text, 0, nil
	}
	return nil, pauseOf(resp.Header), c.refusal(resp.StatusCode, text)
}

func (c *client) unreached(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var dns *net.DNSError
	gone := errors.As(err, &dns) && dns.IsNotFound
	return &sandbox.Error{Class: sandbox.Unavailable, Reason: c.Name + " cannot be reached, or not be understood", Err: err, Retry: !gone}
}

// refusal is what a status other than success means. Providers may quote the key.
func (c *client) refusal(status int, text []byte) error {
	e := &sandbox.Error{Class: sandbox.Unavailable, Reason: fmt.Sprintf("%s answers %d: %s", c.Name, status, clip(strings.ReplaceAll(reasonOf(text), c.Key, hiddenValue), 300))}
	switch {
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status >= 500:
		e.Retry = true
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		e.Class, e.Remedy = sandbox.Denied, "check the key"
	case status == http.StatusBadRequest, status == http.StatusNotFound:
		e.Class = sandbox.Invalid
	}
	return e
}

// reasonOf is the message of a refusal, which the three providers give alike.
func reasonOf(text []byte) string {
	var refused struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(text, &refused) == nil && refused.Error.Message != "" {
		return refused.Error.Message
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// pauseOf is the wait that a provider asks for, or less than 0.
func pauseOf(h http.Header) time.Duration {
	if n, err := strconv.Atoi(h.Get("Retry-After")); err == nil && n >= 0 && n < 1<<20 {
		return time.Duration(n) * time.Second
	}
	return -1
}
