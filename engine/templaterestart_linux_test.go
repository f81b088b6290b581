package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"aether/engine"
	"aether/sandbox"
)

// stands wants a template to be there, with its memory: x is what its code has set.
func stands(t testing.TB, e *engine.Engine, ref, x string) engine.Sandbox {
	t.Helper()
	s := create(t, e, alice, engine.CreateRequest{Template: ref})
	if got := runs(t, e, alice, s, "echo $x"); got != x {
		t.Errorf("%s says %q and not %q", ref, got, x)
	}
	return s
}

// marked is a template whose memory differs with every preparation.
func marked(name string) engine.TemplateRequest {
	req := bashRequest(name, "x=$RANDOM$RANDOM")
	req.Tags, req.Ahead = []string{"kept"}, 2
	return req
}

// forgetful is a driver that keeps nothing of its sandboxes.
type forgetful struct{ sandbox.Driver }

func (f forgetful) Close(ctx context.Context) error { return f.Driver.(sandbox.Closer).Close(ctx) }
func (f forgetful) Reap(ctx context.Context) (int, error) {
	return f.Driver.(sandbox.Reaper).Reap(ctx)
}

// openKeeping opens an engine whose driver keeps memory, or nothing at all.
func (h *house) openKeeping(memory bool) *engine.Engine {
	h.t.Helper()
	opts := h.options()
	if made := opts.Drivers[0].New; !memory {
		opts.Drivers[0].New = func() sandbox.Driver { return forgetful{made()} }
	}
	e, err := engine.Open(opts)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { h.close(e) })
	return e
}

// TestTemplatesOutliveARestart: those of a recipe and those of a sandbox are there again,
// with their memory where that is kept and else prepared anew; so are their pools.
func TestTemplatesOutliveARestart(t *testing.T) {
	for name, memory := range map[string]bool{"memory is kept": true, "nothing is kept": false} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, sandbox.Checkpoint)
			e := h.openKeeping(memory)
			declare(t, e, alice, marked("cooked"))
			was := create(t, e, alice, engine.CreateRequest{Template: "cooked"})
			x := runs(t, e, alice, was, "echo $x")
			promoted, err := e.Promote(t.Context(), alice, was.ID, engine.PromoteRequest{Name: "made"})
			if err != nil {
				t.Fatal(err)
			}
			if memory == strings.Contains(promoted.Reason, "loses") {
				t.Errorf("what is promised is %q", promoted.Reason)
			}
			for range 2 {
				h.close(e)
				e = h.openKeeping(memory)
				now := stands(t, e, "cooked:kept", runs(t, e, alice, create(t, e, alice, engine.CreateRequest{Template: "cooked@1"}), "echo $x"))
				if same := runs(t, e, alice, now, "echo $x") == x; same != memory {
					t.Errorf("that its memory is the same is %v", same)
				}
				if !eventually(func() bool {
					i, err := e.GetTemplate(t.Context(), alice, "cooked")
					return err == nil && i.Pool != nil && i.Pool.Ready == 2
				}) {
					t.Error("its pool is not there")
				}
				if memory {
					stands(t, e, "made", x)
					continue
				}
				_, err := e.Create(t.Context(), alice, engine.CreateRequest{Template: "made"})
				wantClass(t, err, sandbox.NotFound)
				if i, err := e.GetTemplate(t.Context(), alice, "made"); err != nil || i.State != engine.TemplateFailed || !strings.Contains(i.Reason, "does not keep the memory") {
					t.Errorf("%+v, %v", i, err)
				}
			}
			if used, _, err := e.Used(t.Context(), alice, "alice"); err != nil || used.Sandboxes == 0 {
				t.Errorf("%+v, %v", used, err)
			}
			for _, name := range []string{"cooked", "made"} {
				if err := e.RemoveTemplate(t.Context(), alice, name); err != nil {
					t.Error(err)
				}
			}
			h.close(e)
			e = h.open()
			_, err = e.GetTemplate(t.Context(), alice, "cooked")
			wantClass(t, err, sandbox.NotFound)
		})
	}
}

// TestFailedAgain: a template that cannot be prepared anew says why, and is tried again
// when somebody wants it.
func TestFailedAgain(t *testing.T) {
	h := newHouse(t, sandbox.Filesystem)
	dir := t.TempDir()
	e := h.open()
	req := countingRequest("mounted")
	req.Recipe.Spec.Mounts = []sandbox.Mount{{Source: dir, Target: "/mnt"}}
	req.Recipe.Run = [][]string{{"sh", "-c", "test ! -e /mnt/broken"}}
	declare(t, e, root, req)
	h.close(e)
	if err := os.WriteFile(dir+"/broken", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	e = h.open()
	_, err := e.Create(t.Context(), root, engine.CreateRequest{Template: "mounted"})
	wantClass(t, err, sandbox.Conflict)
	if i, err := e.GetTemplate(t.Context(), root, "mounted"); err != nil || i.State != engine.TemplateFailed || !strings.Contains(i.Reason, "status 1") {
		t.Errorf("%+v, %v", i, err)
	}
	if err := os.Remove(dir + "/broken"); err != nil {
		t.Fatal(err)
	}
	create(t, e, root, engine.CreateRequest{Template: "mounted"})
}

// TestReplacedWhilePreparedAnew: a version that is replaced while it is prepared anew after
// a restart is gone, and so is its sandbox.
func TestReplacedWhilePreparedAnew(t *testing.T) {
	h := newHouse(t, sandbox.Filesystem)
	e := h.openKeeping(false)
	slow := countingRequest("app")
	slow.Recipe.Command, slow.Recipe.Ready = []string{"sh", "-c", "sleep 0.5; touch /tmp/up; exec sleep 1000"}, engine.Ready{File: "/tmp/up"}
	was := declare(t, e, alice, slow)
	h.close(e)
	e = h.openKeeping(false)
	now := declare(t, e, alice, bashRequest("app", ""))
	time.Sleep(time.Second) // until it would be ready
	if !eventually(func() bool {
		used, _, err := e.Used(t.Context(), alice, "alice")
		return err == nil && used.Sandboxes == 1
	}) {
		used, _, err := e.Used(t.Context(), alice, "alice")
		t.Errorf("one template takes %+v, %v", used, err)
	}
	h.close(e)
	e = h.openKeeping(false)
	page, err := e.ListTemplates(t.Context(), alice, engine.TemplateQuery{})
	if err != nil || len(page.Templates) != 1 || page.Templates[0].ID != now.ID || now.ID == was.ID {
		t.Errorf("%+v, %v", page, err)
	}
}

// templateVictim makes a test binary a program that prepares templates and waits to be
// killed.
const templateVictim = "AETHER_ENGINE_TEMPLATE_VICTIM"

func prepareAndWait(dir string) int {
	e, err := engine.Open((&house{dir: dir, keep: sandbox.Checkpoint, access: openAccess}).options())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx := context.Background()
	cooked, err := e.PrepareTemplate(ctx, alice, marked("cooked"), nil)
	if err == nil {
		var s engine.Sandbox
		if s, err = e.Create(ctx, alice, engine.CreateRequest{Template: "cooked"}); err == nil {
			_, err = e.Promote(ctx, alice, s.ID, engine.PromoteRequest{Name: "made"})
		}
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(cooked)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	slow := countingRequest("slow")
	slow.Recipe.Ready = engine.Ready{File: "/never"}
	_, err = e.PrepareTemplate(ctx, alice, slow, nil)
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// TestTemplatesOutliveAKill: what was answered is there again, what was not is nothing,
// and nothing is left of what ran.
func TestTemplatesOutliveAKill(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), templateVictim+"="+h.dir), os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var was engine.TemplateInfo
	if err := json.NewDecoder(out).Decode(&was); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond) // into the preparation that never ends
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	e := h.open()
	for _, ref := range []string{"cooked", "cooked:kept", "made"} {
		s := create(t, e, alice, engine.CreateRequest{Template: ref})
		if got := runs(t, e, alice, s, "echo ${x:+set}"); got != "set" {
			t.Errorf("%s says %q", ref, got)
		}
	}
	if now, err := e.GetTemplate(t.Context(), alice, "cooked"); err != nil || now.ID != was.ID || now.Ahead != 2 {
		t.Errorf("%+v, %v", now, err)
	}
	_, err = e.GetTemplate(t.Context(), alice, "slow")
	wantClass(t, err, sandbox.NotFound)
}
