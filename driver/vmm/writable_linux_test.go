package vmm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/internal/host/blocklayer"
)

func TestKeepNewest(t *testing.T) {
	dir := t.TempDir()
	for n, name := range []string{"blank-1", "other", "blank-2", "blank-3"} {
		at := time.Unix(int64(1000-n), 0) // each older than the one before
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := keepNewest(dir, 2); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	var left []string
	for _, entry := range entries {
		left = append(left, entry.Name())
	}
	if got := strings.Join(left, " "); err != nil || got != "blank-1 blank-2 other" {
		t.Errorf("%q is left, %v", got, err)
	}
}

// TestWritableOfAFork: a source whose monitor has not let go of what it wrote is not forked, and
// what is has files of its own.
func TestWritableOfAFork(t *testing.T) {
	dir := t.TempDir()
	base, err := os.Create(filepath.Join(dir, "base"))
	if err != nil {
		t.Fatal(err)
	}
	if err := base.Truncate(16 * blocklayer.Block); err != nil {
		t.Fatal(err)
	}
	w, err := newWritable(dir, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	held := w.fresh // as the monitor has it
	w.fresh = nil
	next := must(t)(w.next())
	if err := w.freeze(next); err == nil {
		t.Error("its monitor can still write to what its children have")
	}
	held.Close()
	for n := range blocklayer.MaxLayers + 1 {
		if err := w.freeze(must(t)(w.next())); err != nil {
			t.Fatal(err)
		}
		if most := (n+1)%blocklayer.MaxLayers + 1; len(w.layers) != most {
			t.Fatalf("%d layers after %d forks, and not %d", len(w.layers), n+2, most)
		}
	}
	child := must(t)(w.goOn())
	defer child.close()
	if len(child.layers) != len(w.layers) || child.fresh == nil || len(child.handing()) != len(w.layers)+2 {
		t.Errorf("%d layers of %d", len(child.layers), len(w.layers))
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%d files have a name, %v", len(entries), err)
	}
	var none *writable
	if forked, err := none.goOn(); forked != nil || err != nil || none.handing() != nil || none.bytes() != 0 || none.save("") != nil || none.freeze(nil) != nil {
		t.Error("a machine without has one")
	}
	none.close()
}

func must(t *testing.T) func(*writable, error) *writable {
	return func(w *writable, err error) *writable {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
}
