package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"aether/engine"
	"aether/guest"
	"aether/sandbox"
)

// counted reads how far the process is that startCount has started.
const counted = `cat /tmp/n`

// startCount leaves a process running that counts.
func startCount(t testing.TB, e *engine.Engine, id string) {
	t.Helper()
	client, release, err := e.Guest(t.Context(), alice, id)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	const count = `n=0; while :; do n=$((n+1)); echo $n > /tmp/n.new; mv /tmp/n.new /tmp/n; sleep 0.01; done`
	running, err := client.Start(t.Context(), guest.Cmd{Path: "/bin/sh", Args: []string{"-c", count}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { running.Close() })
	sh(t, e, alice, id, "until [ -e /tmp/n ]; do sleep 0.01; done")
}

// startUnkeepable leaves a process running whose memory cannot be kept.
func startUnkeepable(t testing.TB, e *engine.Engine, id string) {
	t.Helper()
	need(t, "python3")
	client, release, err := e.Guest(t.Context(), alice, id)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	const talk = `
import socket, time
l = socket.socket(); l.bind(("127.0.0.1", 8080)); l.listen()
c = socket.create_connection(("127.0.0.1", 8080)); s, _ = l.accept()
open("/tmp/talks", "w").close(); time.sleep(1000)`
	running, err := client.Start(t.Context(), guest.Cmd{Path: "python3", Args: []string{"-c", talk}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { running.Close() })
	sh(t, e, alice, id, "until [ -e /tmp/talks ]; do sleep 0.01; done")
}

// goesOn wants what counts in a sandbox to count on, from where it was.
func goesOn(t testing.TB, e *engine.Engine, id, from string) {
	t.Helper()
	now := ""
	if !eventually(func() bool { now = sh(t, e, alice, id, counted); return beyond(now, from) }) {
		t.Errorf("it was at %s and is at %s", from, now)
	}
}

// beyond compares numbers as texts.
func beyond(a, b string) bool { return len(a) > len(b) || len(a) == len(b) && a > b }

// TestPauseIsDurable: what is paused is a checkpoint and nothing else, also for another
// engine, and goes on from there under its id.
func TestPauseIsDurable(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	e := h.open()
	id := create(t, e, alice, engine.CreateRequest{Timeout: time.Hour}).ID
	startCount(t, e, id)
	s, err := e.Pause(t.Context(), alice, id, "")
	if err != nil {
		t.Fatal(err)
	}
	if s.State != engine.Paused || s.Fidelity != sandbox.Checkpoint || !s.Expires.IsZero() {
		t.Errorf("%+v", s)
	}
	_, err = e.Pause(t.Context(), alice, id, "")
	wantClass(t, err, sandbox.Conflict)
	_, err = tryShell(t.Context(), e, alice, id, "true")
	wantClass(t, err, sandbox.Conflict)
	_, err = e.Stats(t.Context(), alice, id)
	wantClass(t, err, sandbox.Conflict)

	h.close(e)
	e = h.open()
	if s := get(t, e, alice, id); s.State != engine.Paused {
		t.Fatalf("after a restart: %+v", s)
	}
	if s, err = e.Resume(t.Context(), alice, id, ""); err != nil {
		t.Fatal(err)
	}
	if s.State != engine.Running || s.ID != id || s.Fidelity != "" || time.Until(s.Expires) < 59*time.Minute {
		t.Errorf("%+v", s)
	}
	goesOn(t, e, id, "3")
	_, err = e.Resume(t.Context(), alice, id, "")
	wantClass(t, err, sandbox.Conflict)
	if _, err := e.Pause(t.Context(), alice, id, ""); err != nil {
		t.Errorf("once more: %v", err)
	}
	if err := e.Destroy(t.Context(), alice, id); err != nil {
		t.Error(err)
	}
	wantKinds(t, e, id, "created started paused resumed paused ended")
}

// TestManyPauses: a sandbox that is paused again and again forgets nothing.
func TestManyPauses(t *testing.T) {
	e := newHouse(t, sandbox.Checkpoint).open()
	id := create(t, e, alice, engine.CreateRequest{AutoResume: true}).ID
	startCount(t, e, id)
	for range 5 {
		at := sh(t, e, alice, id, counted)
		if _, err := e.Pause(t.Context(), alice, id, ""); err != nil {
			t.Fatal(err)
		}
		goesOn(t, e, id, at) // which resumes it
	}
}

// TestCheckpointsAreRemoved: what the checkpoints of sandboxes that were resumed or ended
// took of the disk is given back while the engine lives.
func TestCheckpointsAreRemoved(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	e := h.open()
	id := create(t, e, alice, engine.CreateRequest{}).ID
	startCount(t, e, id)
	if _, err := e.Pause(t.Context(), alice, id, ""); err != nil {
		t.Fatal(err)
	}
	paused := h.stored()
	if paused < 64<<10 {
		t.Fatalf("the memory of a process is %d bytes, or elsewhere", paused)
	}
	if _, err := e.Resume(t.Context(), alice, id, ""); err != nil {
		t.Fatal(err)
	}
	// The files that it had written are a layer of the new instance.
	if !eventually(func() bool { return h.stored() < paused/10 }) {
		t.Errorf("%d bytes are left of %d", h.stored(), paused)
	}
	goesOn(t, e, id, "3")
	if err := e.Destroy(t.Context(), alice, id); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { return h.stored() == 0 && len(h.layers()) == 0 }) {
		t.Errorf("it has ended, and %d bytes and the layers %v are left", h.stored(), h.layers())
	}
}

// TestPauseKeepsWhatIsAskedFor: who asks for memory is not given files, and who asks for
// files is given no processes, also of a checkpoint.
func TestPauseKeepsWhatIsAskedFor(t *testing.T) {
	e := newHouse(t, sandbox.Checkpoint).open()
	id := create(t, e, alice, engine.CreateRequest{}).ID
	startUnkeepable(t, e, id)
	for _, memory := range []sandbox.Fidelity{"", sandbox.Checkpoint} {
		_, err := e.Pause(t.Context(), alice, id, memory)
		wantClass(t, err, sandbox.Conflict)
	}
	_, err := e.Pause(t.Context(), alice, id, sandbox.Live)
	wantField(t, err, "fidelity")
	sh(t, e, alice, id, "grep -q python3 /proc/[0-9]*/comm") // it goes on
	s, err := e.Pause(t.Context(), alice, id, sandbox.Filesystem)
	if err != nil || s.Fidelity != sandbox.Filesystem || s.Reason != "" {
		t.Fatalf("%+v, %v", s, err)
	}
	_, err = e.Resume(t.Context(), alice, id, sandbox.Checkpoint)
	wantClass(t, err, sandbox.Conflict)
	if _, err := e.Resume(t.Context(), alice, id, ""); err != nil {
		t.Fatal(err)
	}
	sh(t, e, alice, id, "[ -e /tmp/talks ] && ! grep -q python3 /proc/[0-9]*/comm")
	startCount(t, e, id)
	if _, err := e.Pause(t.Context(), alice, id, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Resume(t.Context(), alice, id, sandbox.Filesystem); err != nil {
		t.Fatal(err)
	}
	sh(t, e, alice, id, "a=$(cat /tmp/n); sleep 0.1; [ $a = $(cat /tmp/n) ]")
}

// TestTimeIsOver: it ends in a kill, or in a pause, and of what cannot be kept whole
// files are, with the reason.
func TestTimeIsOver(t *testing.T) {
	for _, c := range []struct {
		keep  sandbox.Fidelity
		then  engine.Then
		state engine.State
		event string
	}{
		{sandbox.Checkpoint, "", engine.Ended, "created started ended"},
		{sandbox.Checkpoint, engine.ThenPause, engine.Paused, "created started paused"},
		{sandbox.Filesystem, engine.ThenPause, engine.Paused, "created started paused"},
		{sandbox.Filesystem, engine.ThenPauseFiles, engine.Paused, "created started paused"},
	} {
		t.Run(string(c.keep)+" "+string(c.then), func(t *testing.T) {
			e := newHouse(t, sandbox.Checkpoint).open()
			id := create(t, e, alice, engine.CreateRequest{AutoResume: true}).ID
			sh(t, e, alice, id, "echo kept > /tmp/file")
			less := c.keep == sandbox.Filesystem && c.then == engine.ThenPause
			if less {
				startUnkeepable(t, e, id)
			}
			if _, err := e.SetTimeout(t.Context(), alice, id, time.Millisecond, c.then); err != nil {
				t.Fatal(err)
			}
			s := inState(t, e, id, c.state)
			wantKinds(t, e, id, c.event)
			if c.state == engine.Ended {
				if s.Exit.Cause != sandbox.Expired {
					t.Errorf("%+v", s.Exit)
				}
				return
			}
			if s.Fidelity != c.keep || (s.Reason != "") != less {
				t.Errorf("%+v", s)
			}
			if _, err := e.SetTimeout(t.Context(), alice, id, time.Hour, c.then); err != nil {
				t.Fatal(err)
			}
			if got := sh(t, e, alice, id, "cat /tmp/file"); got != "kept" {
				t.Errorf("it says %q", got)
			}
		})
	}
}

// TestTimeCanBeChanged: the last word counts.
func TestTimeCanBeChanged(t *testing.T) {
	e := newHouse(t, sandbox.Filesystem).open()
	longer(t, 300*time.Millisecond, func(t *testing.T, within time.Duration) bool {
		id := create(t, e, alice, engine.CreateRequest{Timeout: within}).ID
		s, err := e.SetTimeout(t.Context(), alice, id, 0, "")
		if sandbox.ClassOf(err) == sandbox.NotFound {
			return false // it was over before
		}
		if err != nil || !s.Expires.IsZero() {
			t.Fatalf("%+v, %v", s, err)
		}
		time.Sleep(within * 5 / 3)
		if s := get(t, e, alice, id); s.State != engine.Running {
			t.Errorf("%+v", s)
		}
		return true
	})
}

// TestStopAndGoOn: what was made to outlive the engine goes on in the next, and the rest
// has ended with the reason.
func TestStopAndGoOn(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	e := h.open()
	kept := create(t, e, alice, engine.CreateRequest{Keep: true}).ID
	other := create(t, e, alice, engine.CreateRequest{}).ID
	paused := create(t, e, alice, engine.CreateRequest{}).ID
	startCount(t, e, kept)
	if _, err := e.Pause(t.Context(), alice, paused, ""); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		at := sh(t, e, alice, kept, counted)
		h.close(e)
		e = h.open()
		goesOn(t, e, kept, at) // at once: it was made to
	}
	inState(t, e, kept, engine.Running)
	if s := get(t, e, alice, other); s.State != engine.Ended || s.Exit.Cause != sandbox.Stopped || s.Exit.Detail == "" {
		t.Errorf("%+v", s)
	}
	if s := get(t, e, alice, paused); s.State != engine.Paused {
		t.Errorf("%+v", s)
	}
	wantKinds(t, e, kept, "created started"+strings.Repeat(" paused resumed", 3))
}

// TestNothingIsMadeAfterClose: every call is refused.
func TestNothingIsMadeAfterClose(t *testing.T) {
	h := newHouse(t, sandbox.Filesystem)
	e := h.open()
	id := create(t, e, alice, engine.CreateRequest{}).ID
	h.close(e)
	_, err := e.Create(context.Background(), alice, engine.CreateRequest{})
	wantClass(t, err, sandbox.Conflict)
	_, err = e.Resume(context.Background(), alice, id, "")
	wantClass(t, err, sandbox.Conflict)
}
