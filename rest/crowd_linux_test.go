package rest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"aether/engine"
	"aether/guest"
	"aether/internal/soak"
	"aether/rest"
	"aether/sandbox"
)

// TestManyClients: clients of two tenants and an operator, over every kind of listener,
// make, use and end sandboxes at once, while others follow the events. Nothing is left of
// them, no goroutine either, once the door is closed.
func TestManyClients(t *testing.T) {
	warm, err := cells.Create(t.Context(), sandbox.Spec{}) // the driver keeps what it starts for the first
	if err != nil {
		t.Fatal(err)
	}
	if err := warm.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	t.Run("crowd", func(t *testing.T) {
		d := open(t, rest.Limits{})
		var all sync.WaitGroup
		for i := range soak.Count(12, 100) {
			opts := []rest.ClientOptions{{URL: "unix://" + d.socket}, {URL: d.http, Key: annsKey}, {URL: d.https, Key: bobsKey, Authorities: d.trust}}[i%3]
			all.Go(func() {
				if err := useSome(t.Context(), opts, 3); err != nil {
					t.Errorf("client %d: %v", i, err)
				}
			})
		}
		all.Wait()
	})
	defer func() {
		if t.Failed() {
			stacks := make([]byte, 1<<20)
			t.Logf("%d goroutines are left of %d:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}()
	eventually(t, func() bool { return runtime.NumGoroutine() <= before })
}

func useSome(ctx context.Context, opts rest.ClientOptions, rounds int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := rest.NewClient(opts)
	if err != nil {
		return err
	}
	defer c.Close()
	for i := range rounds {
		if err := useOne(ctx, c, fmt.Sprint(i)); err != nil {
			return err
		}
	}
	return nil
}

func useOne(ctx context.Context, c *rest.Client, word string) error {
	box, err := c.Create(ctx, engine.CreateRequest{})
	if err != nil {
		return err
	}
	result, err := c.Exec(ctx, box.ID, rest.ExecRequest{Command: []string{"echo", word}})
	if err == nil && result.Stdout.Text != word+"\n" {
		err = fmt.Errorf("%s says %+v", box.ID, result)
	}
	running, started := c.GuestOf(box.ID, guest.ClientOptions{}).Start(ctx, guest.Cmd{Path: "true"})
	if started == nil {
		_, started = running.Wait()
	}
	return errors.Join(err, started, followEnd(ctx, c, box.ID))
}

// followEnd ends a sandbox and waits to be told of it.
func followEnd(ctx context.Context, c *rest.Client, id string) error {
	if err := c.Destroy(ctx, id); err != nil {
		return err
	}
	for event, err := range c.Events(ctx, 0) {
		if err != nil {
			return err
		}
		if event.Sandbox == id && event.Kind == engine.EventEnded {
			return nil
		}
	}
	return fmt.Errorf("nobody is told that %s has ended", id)
}
