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
func TestLayersAtOnce(t *testing.T) { longer(t, 300*time.Millisecond, layersAtOnce) }

// layersAtOnce says whether who gives up did so before its first command, which takes so
// long, had ended.
func layersAtOnce(t *testing.T, takes time.Duration) (inTime bool) {
	const others = 10
	e := newHouse(t, sandbox.Filesystem).open()
	slow := []string{"sh", "-c", fmt.Sprintf("sleep %.1f; cat /proc/sys/kernel/random/uuid > /tmp/slow", takes.Seconds())}
	giving, giveUp := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	began := make(chan struct{})
	var (
		once sync.Once
		all  sync.WaitGroup
		mu   sync.Mutex
		wait int // how many do
		runs []string
		left = map[string]int{}
	)
	await := func(step string) {
		if strings.HasPrefix(step, engine.StepAwait) {
			mu.Lock()
			defer mu.Unlock()
			wait++
		}
	}
	request := func(name string) engine.TemplateRequest {
		req := drawing(name, "a", "b")
		req.Recipe.Run = append([][]string{slow}, req.Recipe.Run...)
		return req
	}
	go func() {
		_, err := e.PrepareTemplate(giving, alice, request("first"), func(step string) {
			if strings.HasPrefix(step, engine.StepRun) {
				once.Do(func() {
					close(began)
					if !waited(&mu, &wait, others) {
						t.Error("the others do not wait for what is run already")
					}
				})
			}
		})
		gone <- err
	}()
	<-began
	for n := range others {
		all.Go(func() {
			info, err := e.PrepareTemplate(t.Context(), alice, request(fmt.Sprint("t", n)), await)
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
	waited(&mu, &wait, others)
	giveUp()
	err := <-gone
	all.Wait()
	if slices.Sort(runs); !slices.ContainsFunc(runs, func(run string) bool { return strings.HasPrefix(run, "sh -c sleep") }) {
		t.Logf("who gave up got %v, and %q were run by others", err, runs)
		return false
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up got %v", err)
	}
	if len(runs) != 3 || len(slices.Compact(runs)) != 3 || len(left) != 1 {
		t.Errorf("%q were run, and %v are left", runs, left)
	}
	return true
}

// waited waits until a number is reached.
func waited(mu *sync.Mutex, number *int, reached int) bool {
	return eventually(func() bool {
		mu.Lock()
		defer mu.Unlock()
		return *number >= reached
	})
}

// TestFailureIsShared: a command that fails fails all who wait for it, once.
func TestFailureIsShared(t *testing.T) {
	e := newHouse(t, sandbox.Filesystem).open()
	var all sync.WaitGroup
	var mu sync.Mutex
	runs, wait := 0, 0
	for n := range 4 {
		all.Go(func() {
			req := bashRequest(fmt.Sprint("t", n), "")
			req.Recipe.Run = [][]string{{"sh", "-c", "echo oh no; exit 3"}}
			_, err := e.PrepareTemplate(t.Context(), alice, req, func(step string) {
				count := &wait
				if strings.HasPrefix(step, engine.StepRun) {
					count = &runs
				} else if !strings.HasPrefix(step, engine.StepAwait) {
					return
				}
				mu.Lock()
				*count++
				mu.Unlock()
				if count == &runs && !waited(&mu, &wait, 3) {
					t.Error("not all wait for it")
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
