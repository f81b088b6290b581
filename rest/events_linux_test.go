package rest_test

import (
	"bufio"
	"context"
	"strings"
	"testing"
	"time"

	"aether/engine"
	"aether/guest"
	"aether/rest"
	"aether/sandbox"
)

// TestEvents: the history, what happens meanwhile, and going on from any number; of
// tenants, each its own.
func TestEvents(t *testing.T) {
	d := open(t, rest.Limits{})
	ann, bob := d.client(t, d.http, annsKey), d.client(t, d.http, bobsKey)
	mine, err := ann.Create(t.Context(), engine.CreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bob.Create(t.Context(), engine.CreateRequest{}); err != nil {
		t.Fatal(err)
	}
	var kinds []engine.EventKind
	var last uint64
	for event, err := range ann.Events(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Tenant != "ann" || event.Sandbox != mine.ID || event.Time.IsZero() {
			t.Errorf("ann is told of %+v", event)
		}
		if kinds = append(kinds, event.Kind); len(kinds) == 1 { // live from here on
			if err := ann.Destroy(t.Context(), mine.ID); err != nil {
				t.Fatal(err)
			}
			last = event.Number
		} else {
			break
		}
	}
	if len(kinds) != 2 || kinds[0] != engine.EventCreated || kinds[1] != engine.EventEnded {
		t.Errorf("ann is told of %v", kinds)
	}
	for event, err := range ann.Events(t.Context(), last) {
		if err != nil || event.Kind != engine.EventEnded {
			t.Errorf("after %d comes %+v, %v", last, event, err)
		}
		break
	}
}

// TestHistory: what has happened alone, after any number, and its end is none of the
// daemon's.
func TestHistory(t *testing.T) {
	d := open(t, rest.Limits{})
	ann := d.client(t, d.http, annsKey)
	for range 3 {
		if _, err := ann.Create(t.Context(), engine.CreateRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	for after, want := range []int{3, 2, 1, 0} {
		var seen []uint64
		for event, err := range ann.History(t.Context(), uint64(after)) {
			if err != nil {
				t.Fatal(err)
			}
			seen = append(seen, event.Number)
		}
		if len(seen) != want || want > 0 && seen[0] != uint64(after)+1 {
			t.Errorf("after %d come %v", after, seen)
		}
	}
	res, err := d.request(t, "/v1/events?follow=maybe")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 400 {
		t.Errorf("status %s", res.Status)
	}
}

// TestDrainIdle: a door to which somebody is connected does not end for having nothing to
// do, and one that is about to end says so.
func TestDrainIdle(t *testing.T) {
	d := open(t, rest.Limits{})
	c := d.client(t, "unix://"+d.socket, "")
	if err := c.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d.DrainIdle() || d.Idle() {
		t.Error("somebody is connected")
	}
	if err := c.Ready(t.Context()); err != nil {
		t.Errorf("it goes on, and says %v", err)
	}
	c.Close()
	eventually(t, d.Idle)
	if !d.DrainIdle() {
		t.Error("nobody is connected")
	}
	if err := c.Ready(t.Context()); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("it is about to end, and says %v", err)
	}
	if d.DrainIdle() {
		t.Error("somebody is connected again")
	}
	if err := c.Ready(t.Context()); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("it ends whoever is connected, and says %v", err)
	}
}

// TestEventsAsText: the stream is what browsers and curl read.
func TestEventsAsText(t *testing.T) {
	d := open(t, rest.Limits{})
	if _, err := d.client(t, d.http, annsKey).Create(t.Context(), engine.CreateRequest{}); err != nil {
		t.Fatal(err)
	}
	res, err := d.request(t, "/v1/events?after=0")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	var text []string
	for len(text) < 5 && lines.Scan() {
		text = append(text, lines.Text())
	}
	if res.Header.Get("Content-Type") != "text/event-stream" || len(text) < 5 || text[2] != "id: 1" || text[3] != "event: created" || !strings.HasPrefix(text[4], `data: {"number":1,`) {
		t.Errorf("%q, %v", text, res.Header)
	}
}

// TestEventsThatEnd: a refusal of the engine and the end of the daemon are errors, and
// the caller's own end is none.
func TestEventsThatEnd(t *testing.T) {
	d := open(t, rest.Limits{})
	c := d.local(t)
	if _, err := c.Create(t.Context(), engine.CreateRequest{}); err != nil {
		t.Fatal(err)
	}
	told := func(ctx context.Context, after uint64, meanwhile func()) (err error) {
		for _, err = range c.Events(ctx, after) {
			if err == nil {
				meanwhile()
			}
		}
		return err
	}
	wantClass(t, told(t.Context(), 1000, func() {}), sandbox.Invalid)
	ctx, cancel := context.WithCancel(t.Context())
	if err := told(ctx, 0, cancel); err != nil {
		t.Errorf("at the caller's end: %v", err)
	}
	wantClass(t, told(t.Context(), 0, d.Drain), sandbox.Unavailable)
	wantClass(t, c.Ready(t.Context()), sandbox.Unavailable)
}

// TestClose: what runs comes to its end, nothing new begins, and whoever does not end in
// time is cut.
func TestClose(t *testing.T) {
	d := open(t, rest.Limits{})
	c := d.local(t)
	made, err := c.Create(t.Context(), engine.CreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	g := c.GuestOf(made.ID, guest.ClientOptions{})
	short, err := g.Start(t.Context(), guest.Cmd{Path: "sleep", Args: []string{"0.5"}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := short.Wait()
		ended <- err
	}()
	if err := d.Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("a command that ran was cut: %v", err)
	}
	_, err = c.Get(t.Context(), made.ID)
	wantClass(t, err, sandbox.Unavailable)
}

func TestCloseCuts(t *testing.T) {
	e := newCellEngine(t)
	server, err := rest.New(rest.Options{Engine: e})
	if err != nil {
		t.Fatal(err)
	}
	d := &door{Server: server, socket: t.TempDir() + "/s"}
	l, err := rest.ListenUnix(t.Context(), d.socket)
	if err != nil {
		t.Fatal(err)
	}
	d.serve(t, l)
	c := d.local(t)
	made, err := c.Create(t.Context(), engine.CreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	long, err := c.GuestOf(made.ID, guest.ClientOptions{}).Start(t.Context(), guest.Cmd{Path: "sleep", Args: []string{"100000"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	wantClass(t, d.Close(ctx), sandbox.Timeout)
	if _, err := long.Wait(); err == nil {
		t.Error("a command that still runs is said to have ended")
	}
	if _, err := e.Get(t.Context(), engine.Caller{Operator: true}, made.ID); err != nil {
		t.Errorf("the sandbox is gone with the door: %v", err)
	}
}
