package engine_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"aether/engine"
	"aether/internal/soak"
	"aether/sandbox"
)

// victimDir makes a test binary the program that is killed: it holds an engine in that
// directory, makes sandboxes without end and says what it was answered.
//
// With victimStep, it kills itself before that change of its state, or ends when it has
// lived one whole life.
const (
	victimDir  = "AETHER_ENGINE_VICTIM"
	victimStep = "AETHER_ENGINE_VICTIM_STEP"
)

// answer is what the victim was told, after it was told.
type answer struct {
	Verb, Key string
	Sandbox   engine.Sandbox
	Snapshot  engine.Snapshot // of the verb snapshot
}

func victim(dir string) int {
	h := &house{dir: dir, keep: sandbox.Checkpoint}
	opts := h.options()
	step, err := strconv.ParseInt(os.Getenv(victimStep), 10, 64)
	if err == nil {
		opts = opts.BeforeWrite(killAt(step))
	}
	e, failed := engine.Open(opts)
	if failed != nil {
		fmt.Fprintln(os.Stderr, failed)
		return 1
	}
	var out sync.Mutex
	if err == nil {
		return h.once(e, step, &out)
	}
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

// killAt kills the program before a change of its state.
func killAt(step int64) func() error {
	var done atomic.Int64
	return func() error {
		if done.Add(1) > step {
			self, err := os.FindProcess(os.Getpid())
			if err != nil || self.Kill() != nil {
				os.Exit(1)
			}
			select {}
		}
		return nil
	}
}

// once lives a life that ends in a pause and one that ends, and closes the engine.
func (h *house) once(e *engine.Engine, step int64, out *sync.Mutex) int {
	for _, key := range []string{fmt.Sprintf("step-%d-0", step), fmt.Sprintf("step-%d-1", step)} {
		if err := h.live(e, key, out); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if err := e.Close(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func tell(out *sync.Mutex, a answer) error {
	line, err := json.Marshal(a)
	out.Lock()
	defer out.Unlock()
	fmt.Println(string(line))
	return err
}

// live makes a sandbox and does to it what can be done.
func (h *house) live(e *engine.Engine, key string, out *sync.Mutex) error {
	ctx := context.Background()
	say := func(verb string, s engine.Sandbox, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", verb, err)
		}
		return tell(out, answer{Verb: verb, Key: key, Sandbox: s})
	}
	s, err := e.Create(ctx, alice, engine.CreateRequest{Key: key})
	if err := say("create", s, err); err != nil {
		return err
	}
	kept, err := e.Snapshot(ctx, alice, s.ID, snapshotOf(key))
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	if err := tell(out, answer{Verb: "snapshot", Key: key, Sandbox: s, Snapshot: kept}); err != nil {
		return err
	}
	p, err := e.Pause(ctx, alice, s.ID, "")
	if err := say("pause", p, err); err != nil {
		return err
	}
	if strings.HasSuffix(key, "0") {
		return nil // it stays paused
	}
	r, err := e.Resume(ctx, alice, s.ID, "")
	if err := say("resume", r, err); err != nil {
		return err
	}
	err = e.Destroy(ctx, alice, s.ID)
	s.State = engine.Ended
	return say("destroy", s, err)
}

// snapshotOf is the snapshot of a life.
func snapshotOf(key string) engine.SnapshotRequest {
	return engine.SnapshotRequest{Key: "snapshot-" + key, Fidelity: sandbox.Filesystem}
}

// TestKilledAtAnyMoment: whenever the program is killed, the next one knows all that was
// answered, reports what ran as lost, and has each event once.
func TestKilledAtAnyMoment(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	last := map[string]answer{} // by sandbox
	for round := range soak.Count(3, 200) {
		answers, killed := kill(t, time.Duration(300+round*37%500)*time.Millisecond, victimDir+"="+h.dir)
		if !killed {
			t.Fatal("the victim ended by itself")
		}
		h.compare(last, answers)
	}
	if len(last) == 0 {
		t.Error("nothing was ever answered")
	}
}

// TestKilledAtEveryWrite: the same for every change of the state.
func TestKilledAtEveryWrite(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	last := map[string]answer{}
	stride := soak.Count(2, 1) // usually, half of them, beginning anywhere
	step := rand.N(stride)
	for killed := true; killed; step += stride {
		var answers []answer
		answers, killed = kill(t, time.Minute, victimDir+"="+h.dir, fmt.Sprintf("%s=%d", victimStep, step))
		h.compare(last, answers)
	}
	if step < 30 {
		t.Errorf("a life has %d steps only", step)
	}
}

// compare holds what the next engine knows against what was answered to all before.
func (h *house) compare(last map[string]answer, answers []answer) {
	h.t.Helper()
	var kept []answer
	for _, a := range answers {
		if a.Verb == "snapshot" {
			kept = append(kept, a)
		}
		last[a.Sandbox.ID] = a
	}
	e := h.open()
	defer h.close(e)
	h.checkSnapshots(e, kept)
	for id, a := range last {
		h.check(e, id, a)
	}
	eventsOnce(h.t, e)
	// Of those that have ended, only the last are remembered.
	maps.DeleteFunc(last, func(_ string, a answer) bool { return a.Verb != "pause" || !strings.HasSuffix(a.Key, "0") })
}

// checkSnapshots wants what was answered of snapshots to hold, and nothing to be there
// that cannot be used. Then it deletes them all.
func (h *house) checkSnapshots(e *engine.Engine, answers []answer) {
	h.t.Helper()
	for _, a := range answers {
		if got, err := e.GetSnapshot(h.t.Context(), alice, a.Snapshot.ID); err != nil || got.Sandbox != a.Sandbox.ID || got.Size != a.Snapshot.Size {
			h.t.Errorf("%+v was answered, and now %+v, %v", a.Snapshot, got, err)
		}
		again, err := e.Snapshot(h.t.Context(), alice, a.Sandbox.ID, snapshotOf(a.Key))
		if err != nil || again.ID != a.Snapshot.ID {
			h.t.Errorf("the key of %s gives %s, %v", a.Snapshot.ID, again.ID, err)
		}
	}
	page, err := e.Snapshots(h.t.Context(), alice, engine.SnapshotQuery{})
	if err != nil {
		h.t.Error(err)
	}
	told := snapshotsTold(h.t, e)
	for i, s := range page.Snapshots {
		if told[s.ID] != 1 {
			h.t.Errorf("of the snapshot %s was told %d times", s.ID, told[s.ID])
		}
		if i == 0 {
			made := create(h.t, e, alice, engine.CreateRequest{Snapshot: s.ID})
			if err := e.Destroy(h.t.Context(), alice, made.ID); err != nil {
				h.t.Error(err)
			}
		}
		if err := e.DeleteSnapshot(h.t.Context(), alice, s.ID); err != nil {
			h.t.Error(err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(h.dir, "state", "snapshots", "*")); err != nil || len(left) > 0 && page.Next == "" {
		h.t.Errorf("of all snapshots %v are left, %v", left, err)
	}
}

// snapshotsTold counts the events of the making of each snapshot.
func snapshotsTold(t testing.TB, e *engine.Engine) map[string]int {
	t.Helper()
	told := map[string]int{}
	for _, event := range happened(t, e, root) {
		if event.Kind == engine.EventSnapshotted {
			told[event.Detail["snapshot"]]++
		}
	}
	return told
}

// kill lets a victim live until it was killed, by itself or after a while, and gives what
// it was answered.
func kill(t *testing.T, after time.Duration, env ...string) (answers []answer, killed bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), os.Stderr
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
	err = cmd.Wait()
	killed = err != nil && cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	if err != nil && !killed {
		t.Fatalf("the victim failed: %v", err)
	}
	return answers, killed
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
	case "create", "snapshot", "resume":
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
func eventsOnce(t testing.TB, e *engine.Engine) {
	t.Helper()
	page, err := e.List(t.Context(), root, engine.Query{})
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, life := range []string{"", " paused", " paused resumed ended", " ended", " paused ended"} {
		known["created started"+life], known["created started snapshotted"+life] = true, true
	}
	delete(known, "created started") // for what ran has ended
	delete(known, "created started snapshotted")
	lives := map[string]string{}
	for _, event := range happened(t, e, root) {
		lives[event.Sandbox] = strings.TrimSpace(lives[event.Sandbox] + " " + string(event.Kind))
	}
	for _, s := range page.Sandboxes {
		if !known[lives[s.ID]] {
			t.Errorf("the events of %s, which is %s: %s", s.ID, s.State, lives[s.ID])
		}
	}
}
