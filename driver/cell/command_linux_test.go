package cell_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"aether/guest"
	"aether/sandbox"
)

// outcome is what a command wrote and how it ended.
type outcome struct {
	stdout, stderr string
	guest.Status
}

func client(t testing.TB, instance sandbox.Instance) *guest.Client {
	t.Helper()
	c := guest.NewClient(instance.Dial, guest.ClientOptions{})
	t.Cleanup(c.Close)
	return c
}

// try runs a command to its end.
func try(ctx context.Context, c *guest.Client, cmd guest.Cmd) (outcome, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	running, err := c.Start(ctx, cmd)
	if err != nil {
		return outcome{}, err
	}
	status, err := running.Wait()
	return outcome{stdout.String(), stderr.String(), status}, err
}

func shell(text string) guest.Cmd { return guest.Cmd{Path: "/bin/sh", Args: []string{"-c", text}} }

// sh runs a script in a cell and wants it to succeed.
func sh(t testing.TB, instance sandbox.Instance, text string) string {
	t.Helper()
	out, err := try(t.Context(), client(t, instance), shell(text))
	if err != nil || out.Code != 0 || out.Signal != 0 {
		t.Fatalf("%q: code %d, signal %d, error %v\n%s%s", text, out.Code, out.Signal, err, out.stdout, out.stderr)
	}
	return strings.TrimSpace(out.stdout)
}

// start starts a script and leaves it running.
func start(t testing.TB, instance sandbox.Instance, text string) *guest.Running {
	t.Helper()
	running, err := client(t, instance).Start(t.Context(), shell(text))
	if err != nil {
		t.Fatal(err)
	}
	return running
}
