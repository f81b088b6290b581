package engine_test

import (
	"path/filepath"
	"strings"
	"testing"

	"aether/engine"
	"aether/sandbox"
)

// draw is a command that leaves something else every time that it runs.
func draw(file string) []string {
	return []string{"sh", "-c", "od -An -N16 -tx1 /dev/urandom | tr -d ' ' > /tmp/" + file}
}

// drawing is a template whose commands leave random files of these names.
func drawing(name string, files ...string) engine.TemplateRequest {
	req := bashRequest(name, "cd /tmp")
	for _, file := range files {
		req.Recipe.Run = append(req.Recipe.Run, draw(file))
	}
	return req
}

// drawn prepares a template, and gives what its commands left and which of them ran: "rc"
// is one that ran and one that was cached.
func drawn(t testing.TB, e *engine.Engine, who engine.Caller, req engine.TemplateRequest) (files map[string]string, ran string) {
	t.Helper()
	var steps strings.Builder
	info, err := e.PrepareTemplate(t.Context(), who, req, func(step string) {
		for word, letter := range map[string]string{engine.StepRun: "r", engine.StepCached: "c"} {
			if strings.HasPrefix(step, word+" ") {
				steps.WriteString(letter)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range info.Commands {
		ran += map[bool]string{false: "r", true: "c"}[c.Cached]
		if c.Unkept != "" {
			t.Logf("%s was not kept: %s", c.Command, c.Unkept)
		}
	}
	if ran != steps.String() {
		t.Errorf("%q is told while it is prepared, and %q afterwards", steps.String(), ran)
	}
	s := create(t, e, who, engine.CreateRequest{Template: info.ID})
	files = map[string]string{}
	for line := range strings.Lines(sh(t, e, who, s.ID, "cd /tmp; for f in *; do [ -f $f ] && echo $f $(cat $f); done; true")) {
		name, content, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[name] = content
	}
	if err := e.Destroy(t.Context(), who, s.ID); err != nil {
		t.Error(err)
	}
	return files, ran
}

func wantRan(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: of its commands %q, and not %q", what, got, want)
	}
}

// layersOf are those on disk.
func (h *house) layersOf() (list []string) {
	h.t.Helper()
	list, err := filepath.Glob(filepath.Join(h.dir, "state", "layers", "*"))
	if err != nil {
		h.t.Fatal(err)
	}
	return list
}

// TestLayers: commands that ran before, after the same commands, do not run again, in this
// engine and in the next; a changed one and all after it do.
func TestLayers(t *testing.T) {
	h := newHouse(t, sandbox.Filesystem)
	e := h.open()
	first, ran := drawn(t, e, alice, drawing("one", "a", "b", "c"))
	wantRan(t, "the first", ran, "rrr")
	same, ran := drawn(t, e, alice, drawing("one", "a", "b", "c"))
	wantRan(t, "the next version", ran, "ccc")
	other, ran := drawn(t, e, alice, drawing("two", "a", "b", "c", "d"))
	wantRan(t, "another name and a command more", ran, "cccr")
	for _, file := range []string{"a", "b", "c"} {
		if first[file] == "" || same[file] != first[file] || other[file] != first[file] {
			t.Errorf("%s is %q, then %q and %q", file, first[file], same[file], other[file])
		}
	}
	changed, ran := drawn(t, e, alice, drawing("one", "a", "x", "c"))
	wantRan(t, "a change in the middle", ran, "crr")
	if changed["a"] != first["a"] || changed["c"] == first["c"] || changed["b"] != "" {
		t.Errorf("of %v became %v", first, changed)
	}
	h.close(e)
	e = h.open()
	after, ran := drawn(t, e, alice, drawing("three", "a", "b", "c"))
	wantRan(t, "after a restart", ran, "ccc")
	if after["b"] != first["b"] {
		t.Errorf("of %v became %v", first, after)
	}
	if s := create(t, e, alice, engine.CreateRequest{Template: "two"}); sh(t, e, alice, s.ID, "cat /tmp/a") != first["a"] {
		t.Error("a template that was made of layers has other files after a restart")
	}
	if found := len(h.layersOf()); found != 6 {
		t.Errorf("there are %d layers", found)
	}
}

// TestLayersOfOthers: what a tenant has kept, no other gets.
func TestLayersOfOthers(t *testing.T) {
	e := newHouse(t, sandbox.Filesystem).open()
	mine, _ := drawn(t, e, alice, drawing("one", "a"))
	theirs, ran := drawn(t, e, bob, drawing("one", "a"))
	wantRan(t, "another tenant", ran, "r")
	if mine["a"] == theirs["a"] {
		t.Error("two tenants have the same files")
	}
	for _, who := range []engine.Caller{alice, bob} {
		if used, _, err := e.Used(t.Context(), who, who.Tenant); err != nil || used.DiskBytes == 0 || used.Snapshots != 0 {
			t.Errorf("%s has %+v, %v", who.Tenant, used, err)
		}
	}
}

// TestNoCache: who refuses what was kept has every command run, and what they leave is
// kept instead.
func TestNoCache(t *testing.T) {
	h := newHouse(t, sandbox.Filesystem)
	e := h.open()
	first, _ := drawn(t, e, alice, drawing("one", "a", "b"))
	req := drawing("one", "a", "b")
	req.NoCache = true
	second, ran := drawn(t, e, alice, req)
	wantRan(t, "without a cache", ran, "rr")
	third, ran := drawn(t, e, alice, drawing("one", "a", "b"))
	wantRan(t, "afterwards", ran, "cc")
	if first["a"] == second["a"] || third["a"] != second["a"] || third["b"] != second["b"] {
		t.Errorf("%v, without a cache %v, and afterwards %v", first, second, third)
	}
	if found := len(h.layersOf()); found != 2 {
		t.Errorf("there are %d layers", found)
	}
}

// TestMoreThanFiles: a sandbox that has more to it than files has no layers from there on,
// and says so; nor has one that shows what is the host's.
func TestMoreThanFiles(t *testing.T) {
	h := newHouse(t, sandbox.Filesystem)
	e := h.open()
	for left, command := range map[string]string{"process": "sleep 1000 > /dev/null 2>&1 < /dev/null &", "/dev/shm": "echo x > /dev/shm/x"} {
		for _, want := range []string{"rrr", "crr"} {
			req := drawing("one", "before-"+filepath.Base(left))
			req.Recipe.Run = append(req.Recipe.Run, []string{"sh", "-c", command}, draw("b"))
			_, ran := drawn(t, e, alice, req)
			wantRan(t, left, ran, want)
			info, err := e.GetTemplate(t.Context(), alice, "one")
			if err != nil || len(info.Commands) != 3 || !strings.Contains(info.Commands[1].Unkept, left) {
				t.Errorf("%+v, %v", info.Commands, err)
			}
			if err := e.RemoveTemplate(t.Context(), alice, "one"); err != nil {
				t.Error(err)
			}
		}
	}
	mounted := drawing("mounted", "a")
	mounted.Recipe.Spec.Mounts = []sandbox.Mount{{Source: t.TempDir(), Target: "/mnt"}}
	for range 2 {
		_, ran := drawn(t, e, root, mounted)
		wantRan(t, "with a mount", ran, "r")
	}
}
