package rest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"aether/engine"
	"aether/guest"
	"aether/rest"
	"aether/sandbox"
)

func sh(script string) rest.ExecRequest {
	return rest.ExecRequest{Command: []string{"sh", "-c", script}}
}

// TestExec runs commands to their ends, whatever those are.
func TestExec(t *testing.T) {
	d := open(t, rest.Limits{})
	c := d.local(t)
	made, err := c.Create(t.Context(), engine.CreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	exec := func(req rest.ExecRequest) rest.ExecResult {
		t.Helper()
		result, err := c.Exec(t.Context(), made.ID, req)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	req := sh("cat; pwd; echo $WORD >&2; exit 3")
	req.Stdin, req.WorkDir, req.Env = "in ", "/tmp", map[string]string{"WORD": "word"}
	if got := exec(req); got.ExitCode != 3 || got.Stdout.Text != "in /tmp\n" || got.Stderr.Text != "word\n" || got.Signal != 0 {
		t.Errorf("%+v", got)
	}
	if got := exec(sh("kill -9 $$")); got.Signal != 9 {
		t.Errorf("%+v", got)
	}
	if got := exec(sh(`printf 'a\377b'`)); got.Stdout.Text != "" || got.Stdout.String() != "a\xffb" {
		t.Errorf("%+v", got)
	}
	if got := exec(sh("yes é | head -c 3000000")); len(got.Stdout.Text) < 1<<20-2 || len(got.Stdout.Text) > 1<<20 || !got.Stdout.Truncated || got.Stderr.Truncated {
		t.Errorf("%d bytes, %v", len(got.Stdout.Text), got.Stdout.Truncated)
	}
	longer(t, 500*time.Millisecond, func(t *testing.T, within time.Duration) error {
		req := sh("echo begun; sleep 1000")
		req.Timeout = within
		if got := exec(req); !got.TimedOut || got.Stdout.Text != "begun\n" {
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
	_, err = c.Exec(t.Context(), made.ID, rest.ExecRequest{Command: []string{"/no/such/program"}})
	wantClass(t, err, sandbox.NotFound)
	for field, req := range map[string]rest.ExecRequest{"command": {}, "timeout_ns": {Command: []string{"true"}, Timeout: 2 * time.Hour}} {
		_, err := c.Exec(t.Context(), made.ID, req)
		if e := wantClass(t, err, sandbox.Invalid); e.Field != field {
			t.Errorf("the field is %q, want %q", e.Field, field)
		}
	}
}

// TestExecOfACallerThatIsGone: its command does not go on without it.
func TestExecOfACallerThatIsGone(t *testing.T) {
	d := open(t, rest.Limits{})
	c := d.local(t)
	made, err := c.Create(t.Context(), engine.CreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	g := c.GuestOf(made.ID, guest.ClientOptions{})
	running := func() bool {
		list, err := g.Processes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(list) > 0
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Exec(ctx, made.ID, rest.ExecRequest{Command: []string{"sleep", "1000"}})
		ended <- err
	}()
	eventually(t, running)
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Error(err)
	}
	eventually(t, func() bool { return !running() })
}
