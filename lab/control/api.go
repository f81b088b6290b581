package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// api is a system that answers HTTP at a socket.
type api struct {
	socket string
	// calls are of verbs about what is not there, by the fact that they show. A verb answers
	// such a call otherwise than what is no verb.
	calls map[string]call
	// none is a call of no verb, of the same kind as the others.
	none call
	// failure is a call that fails: its errors are data if it then says JSON.
	failure call
}

type call struct{ method, path, body string }

func (c call) String() string { return c.method + " " + c.path }

// docker asks the daemon of Docker. Its events are followed by a call that ends by itself.
func docker(ctx context.Context) (findings, error) {
	const one = "/containers/no-such/"
	a := api{socket: cmp.Or(strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://"), "/var/run/docker.sock"),
		calls: map[string]call{
			Exec: {"POST", one + "exec", `{"Cmd":["true"]}`}, Files: {"GET", one + "archive?path=/", ""}, Snapshot: {"POST", "/commit?container=no-such", ""},
			Fork: {"POST", one + "fork", ""}, Policy: {"POST", one + "update", `{}`}, Schema: {"GET", "/swagger.json", ""}, Tools: {"GET", "/tools", ""},
			Events: {"GET", fmt.Sprintf("/events?since=%d&until=%[1]d", time.Now().Unix()-1), ""},
		}, none: call{"POST", one + "no-such-verb", ""}, failure: call{"GET", one + "json", ""}}
	return a.find(ctx)
}

// incus asks its daemon; operations are what its events are of, and are listed.
func incus(ctx context.Context) (findings, error) {
	const one = "/1.0/instances/no-such"
	a := api{socket: cmp.Or(os.Getenv("INCUS_SOCKET"), "/var/lib/incus/unix.socket"),
		calls: map[string]call{
			Exec: {"POST", one + "/exec", `{"command":["true"]}`}, Files: {"GET", one + "/files?path=/", ""}, Snapshot: {"POST", one + "/snapshots", `{"name":"a"}`},
			Fork: {"POST", one + "/fork", `{}`}, Policy: {"PATCH", one, `{"config":{}}`}, Schema: {"GET", "/1.0/metadata/configuration", ""}, Tools: {"GET", "/1.0/tools", ""},
			Events: {"GET", "/1.0/operations", ""},
		}, none: call{"POST", one + "/no-such-verb", `{}`}, failure: call{"GET", one, ""}}
	return a.find(ctx)
}

// find makes every call.
func (a api) find(ctx context.Context) (findings, error) {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", a.socket)
	}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: callTime}
	none, err := ask(ctx, client, a.none)
	if err != nil {
		return nil, err
	}
	found := findings{}
	for _, fact := range Facts {
		call, ok := a.calls[fact]
		if !ok {
			found[fact] = shown{false, "its API has no such verb"}
			continue
		}
		said, err := ask(ctx, client, call)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", call, err)
		}
		found[fact] = shown{said.status < http.StatusInternalServerError && said.differs(none), fmt.Sprintf("%v answers %d, %.120q", call, said.status, said.text)}
	}
	said, err := ask(ctx, client, a.failure)
	found[Errors] = shown{said.status >= http.StatusBadRequest && isJSON(said.text), fmt.Sprintf("%v answers %d, %.120q", a.failure, said.status, said.text)}
	return found, err
}

// answer is one of an API.
type answer struct {
	call   call
	status int
	text   string
}

// differs says whether two calls were understood differently: what they say of themselves,
// which the name of what was called may be part of, is another.
func (a answer) differs(other answer) bool {
	plain := func(a answer) string {
		return strings.ReplaceAll(strings.ReplaceAll(a.text, strings.TrimPrefix(a.call.path, "/"), ""), a.call.method, "")
	}
	return a.status != other.status || plain(a) != plain(other)
}

func ask(ctx context.Context, client *http.Client, c call) (answer, error) {
	var body io.Reader = http.NoBody
	if c.body != "" {
		body = strings.NewReader(c.body)
	}
	req, err := http.NewRequestWithContext(ctx, c.method, "http://localhost"+c.path, body)
	if err != nil {
		return answer{}, err
	}
	if c.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxOutput))
	return answer{c, res.StatusCode, strings.TrimSpace(string(text))}, err
}

// isJSON says whether the last line is an object, or a list, that says something.
func isJSON(said string) bool {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	last := []byte(lines[len(lines)-1])
	var object map[string]any
	var list []any
	return json.Unmarshal(last, &object) == nil && len(object) > 0 || json.Unmarshal(last, &list) == nil && len(list) > 0
}

var errNoSocket = errors.New("it opens no socket")
