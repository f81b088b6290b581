package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	"aether/driver/daemon"
	"aether/internal/bounded"
)

const (
	// newestAPI is the minor version of the API that is asked for where the daemon
	// knows it too, and oldestAPI the one without which there is none to use.
	newestAPI, oldestAPI = 51, 40
	// maxAnswer bounds what is read of an answer, and maxWords what is kept of an
	// explanation.
	maxAnswer, maxWords = 8 << 20, 1 << 10
)

// client speaks to a daemon over its socket.
type client struct {
	socket string
	http   *http.Client
	api    atomic.Int64 // the minor version that both know, as of the last ping
}

func connect(socket string) *client { return &client{socket: socket, http: daemon.HTTP(socket)} }

// refusal is a failure that the daemon told.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return "the daemon says: " + r.text }

// negotiate finds the version of the API that both know.
func (c *client) negotiate(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/_ping", nil)
	if err != nil {
		return err
	}
	answer, err := c.do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	minor, known := strings.CutPrefix(answer.Header.Get("Api-Version"), "1.")
	version, err := strconv.Atoi(minor)
	if !known || err != nil || version < oldestAPI {
		return fmt.Errorf("the daemon's API is %.20q, and 1.%d is needed", answer.Header.Get("Api-Version"), oldestAPI)
	}
	c.api.Store(int64(min(version, newestAPI)))
	return nil
}

// get asks for a thing as it is now.
func (c *client) get(ctx context.Context, path string, query url.Values, out any) error {
	return c.ask(ctx, http.MethodGet, path, query, nil, out)
}

// post has the daemon do something of which it has nothing to tell.
func (c *client) post(ctx context.Context, path string, query url.Values) error {
	return c.ask(ctx, http.MethodPost, path, query, nil, nil)
}

// ask sends a value as JSON, if there is one, and reads the answer into out, unless
// that is nil.
func (c *client) ask(ctx context.Context, method, path string, query url.Values, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	answer, err := c.send(ctx, method, path, query, "application/json", body)
	if err != nil {
		return err
	}
	defer answer.Close()
	if out == nil {
		return nil
	}
	return json.NewDecoder(ending(answer)).Decode(out)
}

// ending is the body of an answer that ends.
func ending(answer io.Reader) io.Reader {
	return &bounded.Reader{From: answer, What: "the daemon's answer", Max: maxAnswer}
}

// send sends a request and gives the body of the answer, which is to be closed.
func (c *client) send(ctx context.Context, method, path string, query url.Values, kind string, body io.Reader) (io.ReadCloser, error) {
	request, err := c.request(ctx, method, path, query, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", kind)
	}
	answer, err := c.do(request)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

func (c *client) request(ctx context.Context, method, path string, query url.Values, body io.Reader) (*http.Request, error) {
	return http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://docker/v1.%d%s?%s", c.api.Load(), path, query.Encode()), body)
}

// do turns an answer that is a refusal into an error.
func (c *client) do(request *http.Request) (*http.Response, error) {
	answer, err := c.http.Do(request)
	if err != nil || answer.StatusCode < http.StatusBadRequest {
		return answer, err
	}
	defer answer.Body.Close()
	var said struct{ Message string }
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxWords))
	if err == nil && json.Unmarshal(text, &said) != nil || said.Message == "" {
		said.Message = fmt.Sprintf("status %d, %q", answer.StatusCode, text)
	}
	return nil, errors.Join(&refusal{answer.StatusCode, said.Message}, err)
}

// hasStatus says that the daemon refused with a status of HTTP.
func hasStatus(err error, status int) bool {
	var r *refusal
	return errors.As(err, &r) && r.status == status
}

// gone says that what was asked for does not exist (any more).
func gone(err error) bool { return hasStatus(err, http.StatusNotFound) }

// conflicts says that it is not in a state for what was asked for.
func conflicts(err error) bool { return hasStatus(err, http.StatusConflict) }

// labelled is the query for things with a label.
func labelled(label string) url.Values {
	filter, _ := json.Marshal(map[string][]string{"label": {label}}) // of text alone, which cannot fail
	return url.Values{"filters": {string(filter)}}
}
