package control

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// docker calls the API. A verb about a container that is not there answers otherwise than
// one that is no verb.
func docker(ctx context.Context) (findings, error) {
	socket := strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://")
	if socket == "" {
		socket = "/var/run/docker.sock"
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: callTime}
	found := findings{}
	for fact, call := range map[string]struct{ method, path, body string }{
		Exec: {"POST", "/containers/no-such/exec", `{"Cmd":["true"]}`}, Files: {"GET", "/containers/no-such/archive?path=/", ""},
		Snapshot: {"POST", "/commit?container=no-such", ""}, Fork: {"POST", "/containers/no-such/fork", ""},
		Policy: {"POST", "/containers/no-such/update", `{}`}, Schema: {"GET", "/swagger.json", ""}, Tools: {"GET", "/tools", ""},
		Errors: {"GET", "/containers/no-such/json", ""},
	} {
		status, said, err := ask(ctx, client, call.method, call.path, call.body)
		if err != nil {
			return nil, err
		}
		verb := !strings.Contains(said, "page not found") && status < http.StatusInternalServerError
		var failure struct {
			Message string `json:"message"`
		}
		if fact == Errors {
			verb = json.Unmarshal([]byte(said), &failure) == nil && failure.Message != ""
		}
		found[fact] = shown{verb, fmt.Sprintf("%s %s answers %d, %.120q", call.method, call.path, status, strings.TrimSpace(said))}
	}
	now := time.Now().Unix()
	status, _, err := ask(ctx, client, "GET", fmt.Sprintf("/events?since=%d&until=%d", now-1, now), "")
	found[Events] = shown{status == http.StatusOK, fmt.Sprintf("GET /events answers %d", status)}
	return found, err
}

func ask(ctx context.Context, client *http.Client, method, path, body string) (status int, said string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://docker"+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxOutput))
	return res.StatusCode, string(text), err
}
