package inroot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestWatchersShareAnInstance: many Watchers take one inotify instance of the kernel's few,
// which is gone with the last of them.
func TestWatchersShareAnInstance(t *testing.T) {
	root, inside, _ := place(t)
	var n Notifier
	var all []*Watcher
	before := instances(t)
	for i := range 200 {
		name := fmt.Sprint(i)
		must(t, os.Mkdir(filepath.Join(inside, name), 0o755))
		w, err := n.Watch(root, name, self, false, 1)
		must(t, err)
		all = append(all, w)
	}
	if got := instances(t); got != before+1 {
		t.Errorf("%d instances for 200 watchers", got-before)
	}
	for i := range all {
		must(t, os.WriteFile(filepath.Join(inside, fmt.Sprint(i), "new"), nil, 0o644))
	}
	for _, w := range all {
		if seen := expect(t, w, Event{"new", Created}); len(seen) != 1 {
			t.Errorf("saw %v", seen)
		}
		must(t, w.Close())
		if _, err := w.Read(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("after its end: %v", err)
		}
	}
	if got := instances(t); got != before {
		t.Errorf("%d instances are left", got-before)
	}
}

// TestWatchersOverlap: each of two Watchers of a directory sees every change, one that came
// later none from before, and one that stays is not disturbed by the end of the other.
func TestWatchersOverlap(t *testing.T) {
	root, inside, _ := place(t)
	must(t, os.MkdirAll(filepath.Join(inside, "d/sub"), 0o755))
	file := func(name string) { t.Helper(); must(t, os.WriteFile(filepath.Join(inside, name), nil, 0o644)) }
	var n Notifier
	whole, err := n.Watch(root, "/", self, true, 100)
	must(t, err)
	t.Cleanup(func() { whole.Close() })
	file("d/early")
	flat, err := n.Watch(root, "d", self, false, 1)
	must(t, err)
	below, err := n.Watch(root, "d/sub", self, true, 10)
	must(t, err)
	t.Cleanup(func() { below.Close() })
	file("d/late")
	file("d/sub/f")
	expect(t, whole, Event{"d/early", Created}, Event{"d/late", Created}, Event{"d/sub/f", Created})
	if seen := expect(t, flat, Event{"late", Created}); slices.Contains(seen, Event{"early", Created}) {
		t.Errorf("a watch sees what was before it: %v", seen)
	}
	expect(t, below, Event{"f", Created})
	must(t, flat.Close())
	// What is moved away from one tree is still the other's.
	must(t, os.Rename(filepath.Join(inside, "d/sub"), filepath.Join(inside, "moved")))
	expect(t, whole, Event{"d/sub", Renamed}, Event{"moved", Created})
	file("moved/g")
	expect(t, whole, Event{"moved/g", Created})
	expect(t, below, Event{"g", Created})
	file("d/last")
	expect(t, whole, Event{"d/last", Created})
	must(t, os.RemoveAll(filepath.Join(inside, "moved")))
	expect(t, whole, Event{"moved", Removed})
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.count != len(whole.wds) || len(n.dirs) != len(whole.wds) {
		t.Errorf("%d directories are watched by %d, for %d", len(n.dirs), n.count, len(whole.wds))
	}
}

// TestWatchersAreBounded: neither more of them nor more directories than are allowed.
func TestWatchersAreBounded(t *testing.T) {
	root, _, _ := place(t)
	full := Notifier{count: maxDirs}
	if _, err := full.Watch(root, "/", self, false, 1); !errors.Is(err, ErrTooMany) {
		t.Errorf("got %v, want ErrTooMany", err)
	}
	var n Notifier
	for range maxWatchers {
		w, err := n.Watch(root, "/", self, false, 1)
		must(t, err)
		defer w.Close()
	}
	if _, err := n.Watch(root, "/", self, false, 1); !errors.Is(err, ErrTooMany) {
		t.Errorf("got %v, want ErrTooMany", err)
	}
}

var self = Identity{os.Geteuid(), os.Getegid()}

// instances counts the inotify instances of this process.
func instances(t *testing.T) (n int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	for _, fd := range fds {
		if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.Contains(to, "inotify") {
			n++
		}
	}
	return n
}
