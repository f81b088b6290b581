package guestagent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"aether/sandbox"
)

// stuck is a sandbox that ends when it is asked to and cannot be removed.
type stuck struct{ ended chan struct{} }

var errStuck = errors.New("the mount is busy")

func (s stuck) Stats(context.Context) (sandbox.Stats, error) { return sandbox.Stats{}, nil }
func (s stuck) Kill() error                                  { close(s.ended); return nil }
func (s stuck) Release(context.Context) error                { return errStuck }
func (s stuck) Wait() sandbox.Exit {
	<-s.ended
	return sandbox.Exit{Cause: sandbox.Crashed}
}

func (stuck) Dial(context.Context) (net.Conn, error) { return nil, errStuck }
func (stuck) Close() error                           { return nil }

// TestWhatCannotBeRemovedIsToldOnce: who destroys a sandbox is told by the answer,
// and of one that ends by itself the log tells.
func TestWhatCannotBeRemovedIsToldOnce(t *testing.T) {
	for name, c := range map[string]struct {
		spec    sandbox.Spec
		end     func(*Instance) error
		records int
	}{
		"destroyed": {sandbox.Spec{}, func(i *Instance) error { return i.Destroy(t.Context()) }, 0},
		"expired": {sandbox.Spec{Timeouts: sandbox.Timeouts{Lifetime: time.Millisecond}}, func(i *Instance) error {
			if exit, err := i.Wait(t.Context()); err != nil || exit.Cause != sandbox.Expired {
				t.Errorf("%+v, %v", exit, err)
			}
			return errStuck
		}, 1},
	} {
		var logged bytes.Buffer
		fleet := Fleet{Logger: slog.New(slog.NewTextHandler(&logged, nil))}
		body := stuck{make(chan struct{})}
		i := New("test", "one", c.spec, body, body)
		fleet.Add(i)
		if err := c.end(i); !errors.Is(err, errStuck) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := i.Wait(t.Context()); err != nil { // which comes after the record
			t.Error(err)
		}
		if got := logged.String(); strings.Count(got, "\n") != c.records || c.records > 0 && !strings.Contains(got, "the mount is busy") {
			t.Errorf("%s: logged %q", name, got)
		}
	}
}
