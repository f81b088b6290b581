package engine_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aether/engine"
	"aether/internal/soak"
	"aether/sandbox"
)

// victimDir makes a test binary the program that is killed: it holds an engine in that
// directory, makes sandboxes without end and says what it was answered.
const victimDir = "AETHER_ENGINE_VICTIM"

// answer is what the victim was told, after it was told.
type answer struct {
	Verb, Key string
	Sandbox   engine.Sandbox
}

func victim(dir string) int {
	h := &house{dir: dir, keep: sandbox.Checkpoint}
	e, err := engine.Open(h.options())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var out sync.Mutex
	for worker := range 3 {
		go func() {
			for n := 0; ; n++ {
				if err := h.live(e, fmt.Sprintf("%d-%d-%d", os.Getpid(), worker, n), &out); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
			}
		}()
	}
	select {}
}

// live makes a sandbox and does to it what can be done.
func (h *house) live(e *engine.Engine, key string, out *sync.Mutex) error {
	ctx := context.Background()
	say := func(verb string, s engine.Sandbox, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", verb, err)
		}
		line, err := json.Marshal(answer{verb, key, s})
		out.Lock()
		defer out.Unlock()
		fmt.Println(string(line))
		return err
	}
	s, err := e.Create(ctx, alice, engine.CreateRequest{Key: key})
	if err := say("create", s, err); err != nil {
		return err
	}
	p, err := e.Pause(ctx, alice, s.ID)
	if err := say("pause", p, err); err != nil {
		return err
	}
	if strings.HasSuffix(key, "0") {
		return nil // it stays paused
	}
	r, err := e.Resume(ctx, alice, s.ID)
	if err := say("resume", r, err); err != nil {
		return err
	}
	err = e.Destroy(ctx, alice, s.ID)
	s.State = engine.Ended
	return say("destroy", s, err)
}

// TestKilledAtAnyMoment: whenever the program is killed, the next one knows all that was
// answered, reports what ran as lost, and has each event once.
func TestKilledAtAnyMoment(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	last := map[string]answer{} // by sandbox
	for round := range soak.Count(3, 200) {
		for _, a := range kill(t, h.dir, time.Duration(300+round*37%500)*time.Millisecond) {
			last[a.Sandbox.ID] = a
		}
		e := h.open()
		for id, a := range last {
			h.check(e, id, a)
		}
		eventsOnce(t, e)
		h.close(e)
		// Of those that have ended, only the last are remembered.
		maps.DeleteFunc(last, func(_ string, a answer) bool { return a.Verb != "pause" || !strings.HasSuffix(a.Key, "0") })
	}
	if len(last) == 0 {
		t.Error("nothing was ever answered")
	}
}

// kill lets a victim live for a while, and gives what it was answered.
func kill(t *testing.T, dir string, after time.Duration) (answers []answer) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), victimDir+"="+dir), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil { // a line that was torn says nothing
			break
		}
		var a answer
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatal(err)
		}
		if answers = append(answers, a); len(answers) == 1 {
			time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
	}
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the victim ended by itself: %v", err)
	}
	return answers
}

// check holds a sandbox against the last that was answered of it. What was not answered
// any more may have been done or not.
func (h *house) check(e *engine.Engine, id string, a answer) {
	h.t.Helper()
	s, err := e.Get(h.t.Context(), alice, id)
	if err != nil {
		h.t.Errorf("%s was answered to %s and is forgotten: %v", id, a.Verb, err)
		return
	}
	switch a.Verb {
	case "create", "resume":
		if s.State == engine.Running {
			h.t.Errorf("%s runs, and its engine was killed", id)
		}
	case "pause":
		if kept := strings.HasSuffix(a.Key, "0"); s.State != engine.Paused && (kept || s.Exit.Cause != sandbox.Lost && s.Exit.Cause != sandbox.Destroyed) {
			h.t.Errorf("%s was paused: %+v", id, s)
		}
	case "destroy":
		if s.State != engine.Ended {
			h.t.Errorf("%s was destroyed: %+v", id, s)
		}
	}
	again, err := e.Create(h.t.Context(), alice, engine.CreateRequest{Key: a.Key})
	if err != nil || again.ID != id {
		h.t.Errorf("the key %s gave %s, and now %s, %v", a.Key, id, again.ID, err)
	}
}

// eventsOnce wants the events of each sandbox to be a life, without anything twice.
func eventsOnce(t *testing.T, e *engine.Engine) {
	t.Helper()
	page, err := e.List(t.Context(), root, engine.Query{})
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{
		"created started paused": true, "created started paused resumed ended": true,
		"created started ended": true, "created started paused ended": true,
	}
	lives := map[string]string{}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for event, err := range e.Events(ctx, root, 0) {
		if err != nil {
			t.Fatal(err)
		}
		lives[event.Sandbox] = strings.TrimSpace(lives[event.Sandbox] + " " + string(event.Kind))
	}
	for _, s := range page.Sandboxes {
		if !known[lives[s.ID]] {
			t.Errorf("the events of %s, which is %s: %s", s.ID, s.State, lives[s.ID])
		}
	}
}
