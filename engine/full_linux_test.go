package engine_test

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"aether/engine"
	"aether/internal/soak"
	"aether/sandbox"
)

// TestFullDiskAtEveryWrite: a disk that is full for one write fails the call, as
// exhausted, or nothing; and what was answered holds, now and for the next engine.
func TestFullDiskAtEveryWrite(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	stride := int64(soak.Count(2, 1)) // usually, half of them, beginning anywhere
	step, failures := rand.N(stride), 0
	for met := true; met; step += stride {
		var writes atomic.Int64
		opts := h.options().BeforeWrite(func() error {
			if writes.Add(1) == step+1 {
				return syscall.ENOSPC
			}
			return nil
		})
		opts.Logger = slog.New(slog.DiscardHandler) // which is told of what nobody is answered
		e, err := engine.Open(opts)
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		last := map[string]answer{}
		for n := range 2 {
			if err := h.tryLife(e, fmt.Sprintf("%d-%d", step, n), last); err != nil {
				failures++
				wantClass(t, err, sandbox.Exhausted)
			}
		}
		if _, err := e.Create(t.Context(), alice, engine.CreateRequest{}); err != nil {
			create(t, e, alice, engine.CreateRequest{}) // there is room again
		}
		met = writes.Load() > step
		h.close(e)
		h.compare(last, nil)
	}
	if step < 30 || failures < 5 {
		t.Errorf("there were %d steps, of which %d failed a call", step, failures)
	}
}

// tryLife does to a sandbox what can be done until something fails, and notes what was
// answered.
func (h *house) tryLife(e *engine.Engine, key string, last map[string]answer) error {
	ctx := h.t.Context()
	s, err := e.Create(ctx, alice, engine.CreateRequest{Key: key})
	if err != nil {
		return err
	}
	last[s.ID] = answer{Verb: "create", Key: key, Sandbox: s}
	if _, err = e.Snapshot(ctx, alice, s.ID, snapshotOf(key)); err != nil {
		return err
	}
	if _, err = e.Pause(ctx, alice, s.ID, ""); err != nil {
		return err
	}
	last[s.ID] = answer{Verb: "pause", Key: key, Sandbox: s}
	if key[len(key)-1] == '0' {
		return nil
	}
	if _, err = e.Resume(ctx, alice, s.ID, ""); err != nil {
		return err
	}
	last[s.ID] = answer{Verb: "resume", Key: key, Sandbox: s}
	if err = e.Destroy(ctx, alice, s.ID); err != nil {
		return err
	}
	last[s.ID] = answer{Verb: "destroy", Key: key, Sandbox: s}
	return nil
}

// TestFullFileSystem: the same with a small file system that is really full, at whatever
// write that happens.
func TestFullFileSystem(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	state := filepath.Join(h.dir, "state")
	mountSmall(t, filepath.Join(h.dir, "disk"), state)
	h.close(h.open()) // what every engine needs is there
	failures := 0
	for _, left := range []int64{0, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512} {
		filler := fill(t, state, left<<10)
		e, err := engine.Open(h.options())
		if err != nil { // the next one has room
			failures++
			wantClass(t, err, sandbox.Exhausted)
			empty(t, filler)
			h.compare(map[string]answer{}, nil)
			continue
		}
		last := map[string]answer{}
		for n := range 2 {
			if err := h.tryLife(e, fmt.Sprintf("%d-%d", left, n), last); err != nil {
				failures++
				wantClass(t, err, sandbox.Exhausted)
			}
		}
		empty(t, filler)
		create(t, e, alice, engine.CreateRequest{})
		h.close(e)
		h.compare(last, nil)
	}
	if failures == 0 {
		t.Error("nothing failed: the file system was never full")
	}
}

// mountSmall mounts a file system of some MiB.
func mountSmall(t *testing.T, disk, at string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root mounts file systems")
	}
	if err := errors.Join(os.WriteFile(disk, nil, 0o600), os.Truncate(disk, 16<<20), os.Mkdir(at, 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{{"mkfs.ext4", "-q", "-m", "0", disk}, {"mount", "-o", "loop", disk, at}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%v: %v: %s", argv, err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", at).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	if err := os.RemoveAll(filepath.Join(at, "lost+found")); err != nil {
		t.Fatal(err)
	}
}

// fill takes all room of a file system but so many bytes.
func fill(t *testing.T, dir string, left int64) string {
	t.Helper()
	file, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	block, size := make([]byte, 4096), int64(0)
	for err == nil {
		_, err = file.Write(block)
		size += int64(len(block))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := errors.Join(file.Truncate(max(0, size-int64(len(block))-left)), file.Sync()); err != nil {
		t.Fatal(err)
	}
	return file.Name()
}

func empty(t *testing.T, filler string) {
	t.Helper()
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
}

// TestFailedSandboxOfATemplate: one that could not be written down has ended in the tree too.
func TestFailedSandboxOfATemplate(t *testing.T) {
	h := newHouse(t, sandbox.Filesystem)
	var full atomic.Bool
	e, err := engine.Open(h.options().BeforeWrite(func() error {
		if full.Load() {
			return syscall.ENOSPC
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.close(e) })
	made := declare(t, e, alice, countingRequest("mine"))
	full.Store(true)
	_, err = e.Create(t.Context(), alice, engine.CreateRequest{Template: "mine"})
	full.Store(false)
	wantClass(t, err, sandbox.Exhausted)
	tree, err := e.TemplateTree(t.Context(), alice, "mine")
	if err != nil || len(tree) != 2 {
		t.Fatalf("%+v, %v", tree, err)
	}
	for _, n := range tree {
		if (n.Ended == nil) != (n.ID == made.ID) {
			t.Errorf("%+v", n)
		}
	}
}
