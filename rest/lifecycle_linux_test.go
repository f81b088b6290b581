package rest_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"aether/engine"
	"aether/guest"
	"aether/rest"
	"aether/sandbox"
)

// TestLifecycle does everything that a sandbox goes through, over every kind of listener.
func TestLifecycle(t *testing.T) {
	d := open(t, rest.Limits{})
	for name, opts := range over(d) {
		t.Run(name, func(t *testing.T) {
			c, err := rest.NewClient(opts)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			made, err := c.Create(t.Context(), engine.CreateRequest{Metadata: map[string]string{"way": name}})
			if err != nil {
				t.Fatal(err)
			}
			tryGuest(t, c, made.ID)
			tryRecord(t, c, made.ID)
			tryStates(t, c, made.ID)
			if err := c.Destroy(t.Context(), made.ID); err != nil {
				t.Fatal(err)
			}
			if got, err := c.Get(t.Context(), made.ID); err != nil || got.State != engine.Ended {
				t.Errorf("it is %+v, %v", got, err)
			}
			g, release, err := c.Guest(t.Context(), made.ID)
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			_, err = g.Start(t.Context(), guest.Cmd{Path: "true"})
			wantClass(t, err, sandbox.NotFound)
		})
	}
}

// tryGuest runs a command, with input and a status, and carries files both ways.
func tryGuest(t *testing.T, c *rest.Client, id string) {
	t.Helper()
	g, release, err := c.Guest(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	var out, errs bytes.Buffer
	running, err := g.Start(t.Context(), guest.Cmd{Path: "sh", Args: []string{"-c", "cat; echo oops >&2; exit 7"}, Stdin: strings.NewReader("hello"), Stdout: &out, Stderr: &errs})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := running.Wait(); err != nil || status.Code != 7 || out.String() != "hello" || errs.String() != "oops\n" {
		t.Errorf("status %+v, %v, output %q, %q", status, err, out.String(), errs.String())
	}
	contents := strings.Repeat("0123456789abcdef", 1<<18)
	if err := g.Write(t.Context(), "/tmp/file", strings.NewReader(contents)); err != nil {
		t.Fatal(err)
	}
	file, err := g.Read(t.Context(), "/tmp/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got, err := io.ReadAll(file); err != nil || string(got) != contents {
		t.Errorf("%d bytes of %d come back, %v", len(got), len(contents), err)
	}
	_, err = g.Read(t.Context(), "/nowhere")
	wantClass(t, err, sandbox.NotFound)
}

func tryRecord(t *testing.T, c *rest.Client, id string) {
	t.Helper()
	got, err := c.SetTimeout(t.Context(), id, time.Hour, engine.ThenPause)
	if err != nil || time.Until(got.Expires) < 50*time.Minute || got.Then != engine.ThenPause {
		t.Errorf("it has %+v, %v", got, err)
	}
	if got, err = c.SetMetadata(t.Context(), id, map[string]string{"a": "1"}); err != nil || got.Metadata["a"] != "1" || got.Expires.IsZero() {
		t.Errorf("it has %+v, %v", got, err)
	}
	if got, err = c.SetMetadata(t.Context(), id, nil); err != nil || len(got.Metadata) != 0 {
		t.Errorf("it has %+v, %v", got, err)
	}
	_, err = c.SetTimeout(t.Context(), id, -1, "")
	if e := wantClass(t, err, sandbox.Invalid); e.Field != "timeout" {
		t.Errorf("the field is %q", e.Field)
	}
	stats, err := c.Stats(t.Context(), id)
	if err != nil || stats.DiskBytes == nil {
		t.Errorf("it uses %+v, %v", stats, err)
	}
}

func tryStates(t *testing.T, c *rest.Client, id string) {
	t.Helper()
	got, err := c.Pause(t.Context(), id, "")
	if os.Geteuid() != 0 && err != nil {
		wantClass(t, err, sandbox.Unavailable)
		t.Skipf("this user cannot pause: %v", err)
	}
	if err != nil || got.State != engine.Paused {
		t.Fatalf("%+v, %v", got, err)
	}
	_, err = c.Pause(t.Context(), id, "")
	wantClass(t, err, sandbox.Conflict)
	if got, err := c.Resume(t.Context(), id, ""); err != nil || got.State != engine.Running {
		t.Fatalf("%+v, %v", got, err)
	}
	if runtime.GOARCH != "amd64" {
		return // cells are forked on amd64 only
	}
	children, err := c.Fork(t.Context(), id, engine.ForkRequest{Count: 2})
	if err != nil || len(children) != 2 || children[0].Parent != id {
		t.Fatalf("%+v, %v", children, err)
	}
	g := c.GuestOf(children[1].ID, guest.ClientOptions{})
	if file, err := g.Read(t.Context(), "/tmp/file"); err != nil {
		t.Errorf("a child lacks the file: %v", err)
	} else {
		file.Close()
	}
}

// TestNothingWaits talks with a command line by line: nothing of either direction may be
// held back until there is more of it.
func TestNothingWaits(t *testing.T) {
	d := open(t, rest.Limits{})
	for name, opts := range over(d) {
		t.Run(name, func(t *testing.T) {
			c, err := rest.NewClient(opts)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			made, err := c.Create(t.Context(), engine.CreateRequest{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			out, to := io.Pipe()
			running, err := c.GuestOf(made.ID, guest.ClientOptions{}).Start(ctx, guest.Cmd{Path: "cat", StdinPipe: true, Stdout: to})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				_, err := running.Wait()
				ended <- err
			}()
			lines := bufio.NewReader(out)
			for i := range 10 {
				if _, err := fmt.Fprintf(running.Stdin(), "line %d\n", i); err != nil {
					t.Fatal(err)
				}
				if got, err := lines.ReadString('\n'); err != nil || got != fmt.Sprintf("line %d\n", i) {
					t.Fatalf("%q, %v", got, err)
				}
			}
			if err := running.Stdin().Close(); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSameKeySameAnswer: the header of idempotency reaches the engine.
func TestSameKeySameAnswer(t *testing.T) {
	c := open(t, rest.Limits{}).local(t)
	first, err := c.Create(t.Context(), engine.CreateRequest{Key: "once"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Create(t.Context(), engine.CreateRequest{Key: "once"})
	if err != nil || again.ID != first.ID {
		t.Errorf("%s, then %s, %v", first.ID, again.ID, err)
	}
	_, err = c.Create(t.Context(), engine.CreateRequest{Key: "two words"})
	if e := wantClass(t, err, sandbox.Invalid); e.Field != "Idempotency-Key" {
		t.Errorf("the field is %q", e.Field)
	}
}

func TestListsAndPages(t *testing.T) {
	c := open(t, rest.Limits{}).local(t)
	for i := range 5 {
		if _, err := c.Create(t.Context(), engine.CreateRequest{Metadata: map[string]string{"odd": fmt.Sprint(i%2 == 1), "a=b&c": "d e"}}); err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	for q := (engine.Query{Limit: 2}); ; {
		page, err := c.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		seen += len(page.Sandboxes)
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	if seen != 5 {
		t.Errorf("pages have %d of 5", seen)
	}
	page, err := c.List(t.Context(), engine.Query{Metadata: map[string]string{"odd": "true"}, States: []engine.State{engine.Running, engine.Paused}, Driver: "cell", Tenant: rest.LocalTenant})
	if err != nil || len(page.Sandboxes) != 2 {
		t.Errorf("%d are odd, %v", len(page.Sandboxes), err)
	}
	if page, err = c.List(t.Context(), engine.Query{States: []engine.State{engine.Ended}}); err != nil || len(page.Sandboxes) != 0 {
		t.Errorf("%d have ended, %v", len(page.Sandboxes), err)
	}
	_, err = c.List(t.Context(), engine.Query{Limit: 101})
	wantClass(t, err, sandbox.Invalid)
}

func TestSystems(t *testing.T) {
	list, err := open(t, rest.Limits{}).local(t).Systems(t.Context())
	if err != nil || len(list) != 2 || list[0].System != "cell" || !list[0].Usable || list[1].Driver {
		t.Errorf("%+v, %v", list, err)
	}
}
