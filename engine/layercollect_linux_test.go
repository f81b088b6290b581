package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/engine"
	"aether/engine/access"
	"aether/sandbox"
)

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
