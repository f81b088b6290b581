package guestagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"

	"aether/guest"
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

// Apply tells a guest service its settings, over a connection of its own.
func Apply(ctx context.Context, dial func(context.Context) (net.Conn, error), s Settings) error {
	body, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return guest.Post(ctx, dial, "/init", bytes.NewReader(body))
}
