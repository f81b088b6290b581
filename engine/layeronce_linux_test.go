package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/engine"
	"aether/sandbox"
)

// TestLayersAtOnce: preparations that begin alike run each command once, under whatever
// names, also if who runs it gives up.
func TestLayersAtOnce(t *testing.T) {
	e := newHouse(t, sandbox.Filesystem).open()
	slow := []string{"sh", "-c", "sleep 0.3; cat /proc/sys/kernel/random/uuid > /tmp/slow"}
	giving, giveUp := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	began := make(chan struct{})
	request := func(name string) engine.TemplateRequest {
		req := drawing(name, "a", "b")
		req.Recipe.Run = append([][]string{slow}, req.Recipe.Run...)
		return req
	}
	go func() {
		_, err := e.PrepareTemplate(giving, alice, request("first"), func(step string) {
			if strings.HasPrefix(step, engine.StepRun) {
				close(began)
			}
		})
		gone <- err
	}()
	<-began
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		runs []string
		left = map[string]int{}
	)
	for n := range 10 {
		all.Go(func() {
			info, err := e.PrepareTemplate(t.Context(), alice, request(fmt.Sprint("t", n)), nil)
			if err != nil {
				t.Error(err)
				return
			}
			s := create(t, e, alice, engine.CreateRequest{Template: info.ID})
			files := sh(t, e, alice, s.ID, "cat /tmp/slow /tmp/a /tmp/b")
			mu.Lock()
			defer mu.Unlock()
			left[files]++
			for _, c := range info.Commands {
				if !c.Cached {
					runs = append(runs, c.Command)
				}
			}
		})
	}
	time.Sleep(100 * time.Millisecond)
	giveUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up got %v", err)
	}
	all.Wait()
	if slices.Sort(runs); len(runs) != 3 || len(slices.Compact(runs)) != 3 || len(left) != 1 {
		t.Errorf("%q were run, and %v are left", runs, left)
	}
}

// TestFailureIsShared: a command that fails fails all who wait for it, once.
func TestFailureIsShared(t *testing.T) {
	e := newHouse(t, sandbox.Filesystem).open()
	var all sync.WaitGroup
	var mu sync.Mutex
	runs := 0
	for n := range 4 {
		all.Go(func() {
			req := bashRequest(fmt.Sprint("t", n), "")
			req.Recipe.Run = [][]string{{"sh", "-c", "sleep 0.5; echo oh no; exit 3"}}
			_, err := e.PrepareTemplate(t.Context(), alice, req, func(step string) {
				if strings.HasPrefix(step, engine.StepRun) {
					mu.Lock()
					defer mu.Unlock()
					runs++
				}
			})
			wantClass(t, err, sandbox.Conflict)
			if err == nil || !strings.Contains(err.Error(), "status 3: oh no") {
				t.Errorf("it says %v", err)
			}
		})
	}
	all.Wait()
	if runs != 1 {
		t.Errorf("it ran %d times", runs)
	}
}
