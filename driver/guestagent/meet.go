package guestagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"

	"aether/guest/channel"
	"aether/sandbox"
)

// Settings are what commands get that do not say otherwise.
type Settings struct {
	User    string            `json:"defaultUser,omitempty"`
	WorkDir string            `json:"defaultWorkdir,omitempty"`
	Env     map[string]string `json:"envVars,omitempty"`
}

// With puts what the caller of a sandbox wants over what its image says.
func (s Settings) With(c sandbox.CommandDefaults) Settings {
	env := map[string]string{}
	maps.Copy(env, s.Env)
	maps.Copy(env, c.Env)
	s.Env = env
	if c.User != "" {
		s.User = c.User
	}
	if c.WorkDir != "" {
		s.WorkDir = c.WorkDir
	}
	return s
}

// Meet joins a stream whose other end is, or will be, the guest service, and
// tells the service its settings. It takes the stream over, also if it fails.
func Meet(ctx context.Context, stream io.ReadWriteCloser, s Settings) (*channel.Dialer, error) {
	dialer, err := channel.Connect(ctx, stream)
	if err != nil {
		return nil, err
	}
	if err := Apply(ctx, dialer.Dial, s); err != nil {
		return nil, errors.Join(err, dialer.Close())
	}
	return dialer, nil
}

// maxAnswer bounds what is read of a failure, and maxHeader the headers of an answer.
const maxAnswer, maxHeader = 4 << 10, 16 << 10

// stay follows no redirection: a guest service has no reason to send its host anywhere.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Apply tells a guest service its settings, over a connection of its own.
func Apply(ctx context.Context, dial func(context.Context) (net.Conn, error), s Settings) error {
	body, err := json.Marshal(s)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}, CheckRedirect: stay}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://guest/init", bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("guest service: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNoContent {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	return errors.Join(&sandbox.Error{Class: sandbox.Internal, Op: "guest service", Reason: fmt.Sprintf("init: %s: %s", res.Status, Printable(string(text)))}, err)
}
