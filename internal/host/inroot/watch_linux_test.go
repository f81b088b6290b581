package inroot

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func watch(t *testing.T, root *Root, name string, recursive bool, max int) (*Watcher, error) {
	t.Helper()
	w, err := new(Notifier).Watch(root, name, self, recursive, max)
	if err == nil {
		t.Cleanup(func() { w.Close() })
	}
	return w, err
}

// expect reads until every wanted event was seen.
func expect(t *testing.T, w *Watcher, want ...Event) (seen []Event) {
	t.Helper()
	timer := time.AfterFunc(time.Minute, func() { w.Close() })
	defer timer.Stop()
	for slices.ContainsFunc(want, func(e Event) bool { return !slices.Contains(seen, e) }) {
		events, err := w.Read()
		seen = append(seen, events...)
		if err != nil {
			t.Fatalf("%v; wanted %v, saw %v", err, want, seen)
		}
	}
	return seen
}

func TestWatchRecursive(t *testing.T) {
	root, inside, _ := place(t)
	must(t, os.MkdirAll(filepath.Join(inside, "a/b"), 0o755))
	w, err := watch(t, root, "/", true, 100)
	must(t, err)

	must(t, os.WriteFile(filepath.Join(inside, "a/b/f"), []byte("x"), 0o644))
	expect(t, w, Event{"a/b/f", Created}, Event{"a/b/f", Written})

	must(t, os.MkdirAll(filepath.Join(inside, "new/deep"), 0o755))
	must(t, os.WriteFile(filepath.Join(inside, "new/deep/f"), []byte("x"), 0o644))
	expect(t, w, Event{"new", Created}, Event{"new/deep", Created}, Event{"new/deep/f", Created})

	must(t, os.Rename(filepath.Join(inside, "new"), filepath.Join(inside, "moved")))
	expect(t, w, Event{"new", Renamed}, Event{"moved", Created})
	must(t, os.Remove(filepath.Join(inside, "moved/deep/f")))
	expect(t, w, Event{"moved/deep/f", Removed})
	must(t, os.Chmod(filepath.Join(inside, "a/b/f"), 0o600))
	expect(t, w, Event{"a/b/f", Changed})
}

func TestWatchFlatStaysFlat(t *testing.T) {
	root, inside, _ := place(t)
	must(t, os.Mkdir(filepath.Join(inside, "sub"), 0o755))
	w, err := watch(t, root, "/", false, 1)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(inside, "sub/hidden"), nil, 0o644))
	must(t, os.WriteFile(filepath.Join(inside, "shown"), nil, 0o644))
	if seen := expect(t, w, Event{"shown", Created}); slices.Contains(seen, Event{"sub/hidden", Created}) {
		t.Errorf("saw %v", seen)
	}
}

func TestWatchShowsDraftsAsWrites(t *testing.T) {
	root, _, _ := place(t)
	w, err := watch(t, root, "/", true, 10)
	must(t, err)
	write := func() {
		d, err := root.NewDraft("file", 0o644)
		must(t, err)
		d.WriteString("x")
		must(t, d.Commit())
	}
	write()
	first := expect(t, w, Event{"file", Created}, Event{"file", Written})
	write()
	second := expect(t, w, Event{"file", Written})
	if len(first) != 2 || len(second) != 1 {
		t.Errorf("first %v, second %v", first, second)
	}
}

func TestWatchIsBounded(t *testing.T) {
	root, inside, _ := place(t)
	for _, name := range []string{"a", "b", "c"} {
		must(t, os.Mkdir(filepath.Join(inside, name), 0o755))
	}
	if _, err := watch(t, root, "/", true, 3); !errors.Is(err, ErrTooMany) {
		t.Errorf("got %v, want ErrTooMany", err)
	}
}

func TestWatchDoesNotFollowLinks(t *testing.T) {
	root, inside, outside := place(t)
	must(t, os.Symlink(outside, filepath.Join(inside, "link")))
	w, err := watch(t, root, "/", true, 10)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(outside, "x"), nil, 0o644))
	must(t, os.WriteFile(filepath.Join(inside, "y"), nil, 0o644))
	if seen := expect(t, w, Event{"y", Created}); len(seen) != 1 {
		t.Errorf("saw %v", seen)
	}
}

func TestWatchEndsWithItsDirectory(t *testing.T) {
	root, inside, _ := place(t)
	must(t, os.Mkdir(filepath.Join(inside, "d"), 0o755))
	w, err := watch(t, root, "d", true, 10)
	must(t, err)
	must(t, os.Remove(filepath.Join(inside, "d")))
	for range 3 {
		if _, err = w.Read(); err != nil {
			break
		}
	}
	if err == nil || errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v, want the end", err)
	}
}

func FuzzRecord(f *testing.F) {
	seed := make([]byte, 32)
	binary.NativeEndian.PutUint32(seed[12:], 16)
	copy(seed[16:], "name")
	f.Add(seed)
	f.Add([]byte{1})
	f.Add(append(make([]byte, 12), 255, 255, 255, 255))
	f.Fuzz(func(t *testing.T, data []byte) {
		for ok := true; ok; {
			var rest []byte
			if _, rest, ok = nextRecord(data); ok && len(rest) >= len(data) {
				t.Fatal("no progress")
			}
			data = rest
		}
	})
}
