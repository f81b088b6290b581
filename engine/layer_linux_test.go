package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/engine"
	"aether/engine/access"
	"aether/sandbox"
)

// draw is a command that leaves something else every time that it runs.
func draw(file string) []string {
	return []string{"sh", "-c", "cat /proc/sys/kernel/random/uuid > /tmp/" + file}
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

// TestLayersAreCollected: prune removes them, least recently used first, but none that a
// preparation uses.
func TestLayersAreCollected(t *testing.T) {
	h := newHouse(t, sandbox.Filesystem)
	e := h.open()
	drawn(t, e, alice, drawing("old", "x", "y"))
	drawn(t, e, alice, drawing("new", "a"))
	if d, err := e.Doctor(t.Context(), root); err != nil || d.Layers.Count != 3 || d.Layers.Bytes == 0 || d.Layers.InUse != 0 {
		t.Errorf("%+v, %v", d.Layers, err)
	}
	if young := prune(t, e, engine.PruneRequest{Layers: time.Hour}); len(young.Removed) != 0 {
		t.Errorf("of what was used just now, %+v went", young)
	}
	would := prune(t, e, engine.PruneRequest{DryRun: true})
	if len(would.Removed) != 3 || would.Removed[0].Kind != "recipe layer" || !strings.HasPrefix(would.Removed[0].Name, "alice/") || !strings.HasSuffix(would.Removed[0].Name, "> /tmp/y") {
		t.Errorf("would remove %+v", would)
	}
	budget := would.Bytes - would.Removed[0].Bytes // room for all but one
	h.access.Host.UnusedDiskBytes = &budget
	if err := errors.Join(e.SetAccess(h.access), e.KeepBudget(t.Context())); err != nil {
		t.Fatal(err)
	}
	_, ran := drawn(t, e, alice, drawing("again", "x", "y"))
	wantRan(t, "over the budget", ran, "cr")

	during := drawing("during", "a")
	during.Recipe.Code, during.Recipe.Command, during.Recipe.Ready = nil, []string{"sleep", "1000"}, engine.Ready{Command: []string{"test", "-e", "/never"}, Timeout: time.Minute}
	ctx, cancel := context.WithCancel(t.Context())
	var once sync.Once
	_, err := e.PrepareTemplate(ctx, alice, during, func(step string) {
		if step == engine.StepReady {
			once.Do(func() {
				if did := prune(t, e, engine.PruneRequest{}); len(did.Removed) != 2 {
					t.Errorf("while one is used, %+v went", did)
				}
				if d, err := e.Doctor(t.Context(), root); err != nil || d.Layers.Count != 1 || d.Layers.InUse != 1 {
					t.Errorf("%+v, %v", d.Layers, err)
				}
				cancel()
			})
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	_, ran = drawn(t, e, alice, drawing("kept", "a"))
	wantRan(t, "what was used meanwhile", ran, "c")
	prune(t, e, engine.PruneRequest{})
	if left := h.layersOf(); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
	_, ran = drawn(t, e, alice, drawing("last", "a"))
	wantRan(t, "after all", ran, "r")
}

// TestLayersTakeDisk: they are of the tenant's quota, and give way to what it asks for.
func TestLayersTakeDisk(t *testing.T) {
	h := newHouse(t, sandbox.Filesystem)
	const mega = 1 << 20
	h.access.Default.Quota = access.Quota{DiskBytes: new(int64(11 * mega))}
	h.access.Default.Policy.DefaultLimits.DiskBytes = 4 * mega
	e := h.open()
	fill := func(name string, megas int) engine.TemplateRequest {
		req := bashRequest(name, "")
		req.Recipe.Run = [][]string{{"sh", "-c", fmt.Sprintf("head -c %dM /dev/urandom > /tmp/%s", megas, name)}}
		return req
	}
	prepare := func(req engine.TemplateRequest) engine.PreparedCommand {
		t.Helper()
		info := declare(t, e, alice, req)
		if err := e.RemoveTemplate(t.Context(), alice, info.ID); err != nil {
			t.Error(err)
		}
		return info.Commands[0]
	}
	used := func() int64 {
		t.Helper()
		used, _, err := e.Used(t.Context(), alice, "alice")
		if err != nil {
			t.Fatal(err)
		}
		return used.DiskBytes
	}
	for _, name := range []string{"a", "b"} {
		if c := prepare(fill(name, 2)); c.Unkept != "" {
			t.Errorf("%+v", c)
		}
	}
	if got := used(); got < 4*mega || got > 5*mega {
		t.Errorf("two layers take %d bytes", got)
	}
	h.close(e)
	e = h.open()
	if got := used(); got < 4*mega || got > 5*mega {
		t.Errorf("after a restart they take %d bytes", got)
	}
	create(t, e, alice, engine.CreateRequest{})
	create(t, e, alice, engine.CreateRequest{}) // for which one has to go
	if got := used(); got < 10*mega || got > 11*mega {
		t.Errorf("with two sandboxes, %d bytes are taken", got)
	}
	_, err := e.Create(t.Context(), alice, engine.CreateRequest{})
	wantExhausted(t, err, access.DiskQuota)
	if found := len(h.layersOf()); found != 0 {
		t.Errorf("%d layers are left", found)
	}
}

// TestLayersAreCharged: what several share counts once, and as long as one of them has it.
func TestLayersAreCharged(t *testing.T) {
	h := newHouse(t, sandbox.Filesystem)
	e := h.open()
	used := func() int64 {
		t.Helper()
		used, _, err := e.Used(t.Context(), alice, "alice")
		if err != nil {
			t.Fatal(err)
		}
		return used.DiskBytes / (1 << 20)
	}
	prepare := func(noCache bool, files ...string) {
		t.Helper()
		req := drawing("one", files...)
		req.Recipe.Run = append([][]string{{"sh", "-c", "head -c 3M /dev/urandom > /tmp/big"}}, req.Recipe.Run...)
		req.NoCache = noCache
		declare(t, e, alice, req)
		if err := e.RemoveTemplate(t.Context(), alice, "one"); err != nil {
			t.Error(err)
		}
	}
	prepare(false, "a", "b")
	prepare(false, "c")
	if got := used(); got != 3 {
		t.Errorf("four layers with a file of 3 MiB in common take %d", got)
	}
	prepare(true, "a", "b") // and c has the old file alone
	for range 2 {
		if got := used(); got != 6 {
			t.Errorf("with the old file and the new one, they take %d", got)
		}
		h.close(e)
		e = h.open()
	}
	if did := prune(t, e, engine.PruneRequest{}); did.Bytes>>20 != 6 || used() != 0 {
		t.Errorf("%d bytes were removed, and %d MiB are taken", did.Bytes, used())
	}
}

// TestDamagedLayers: one whose record or files are not what they were is made anew.
func TestDamagedLayers(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"record":   func(dir string) error { return os.WriteFile(filepath.Join(dir, "record"), []byte("x"), 0o600) },
		"no files": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "state")) },
		"manifest": func(dir string) error { return os.Remove(filepath.Join(dir, "state", "manifest")) },
		"content": func(dir string) error {
			blobs, err := filepath.Glob(filepath.Join(dir, "state", "blobs", "*"))
			for _, blob := range blobs {
				err = errors.Join(err, os.Remove(blob), os.WriteFile(blob, []byte("forged"), 0o600))
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, sandbox.Filesystem)
			e := h.open()
			req := drawing("one", "a", "b")
			drawn(t, e, alice, req)
			if err := e.RemoveTemplate(t.Context(), alice, "one"); err != nil {
				t.Fatal(err)
			}
			h.close(e)
			for _, dir := range h.layersOf() {
				if err := damage(dir); err != nil {
					t.Fatal(err)
				}
			}
			e = h.open()
			files, ran := drawn(t, e, alice, req)
			wantRan(t, "of the damaged", ran, "rr")
			if files["a"] == "forged" || files["b"] == "" {
				t.Errorf("%v", files)
			}
			_, ran = drawn(t, e, alice, req)
			wantRan(t, "of those that were made anew", ran, "cc")
			if found := len(h.layersOf()); found != 2 {
				t.Errorf("there are %d layers", found)
			}
		})
	}
}
