package cell_test

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/sandbox"
)

// records are what was logged, a line each.
type records struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *records) Write(record []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(record)
}

func (r *records) with(text string) (found []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.Lines(r.text.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// TestCellsAheadThatFailAreLogged has the kernel refuse the groups of the next cells, so
// that none can be made.
func TestCellsAheadThatFailAreLogged(t *testing.T) {
	needRoot(t, "cgroups whose number can be bounded")
	var logged records
	opts := optionsIn(filepath.Join(t.TempDir(), "run"), 2)
	opts.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	driver := cell.New(opts)
	t.Cleanup(func() {
		if err := driver.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	create(t, driver, sandbox.Spec{})
	free := noMoreGroups(t, initOf(t))
	failed := func() bool { return len(logged.with("no cell can be made ahead")) > 0 }
	for range 100 {
		if failed() {
			break
		}
		if made, err := driver.Create(t.Context(), sandbox.Spec{}); err == nil {
			t.Cleanup(func() { made.Destroy(context.Background()) })
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !eventually(10*time.Second, failed) {
		t.Fatal("nothing was logged")
	}
	time.Sleep(500 * time.Millisecond) // it is tried again meanwhile
	if got := logged.with("no cell can be made ahead"); len(got) != 1 || !strings.Contains(got[0], "level=WARN") || !strings.Contains(got[0], "cell-") {
		t.Errorf("logged: %q", got)
	}
	free()
	create(t, driver, sandbox.Spec{})
}

// noMoreGroups has the kernel refuse groups beside those that a process is in, until free.
func noMoreGroups(t *testing.T, pid int) (free func()) {
	t.Helper()
	const file = "cgroup.max.descendants"
	var bounds []string
	filepath.WalkDir("/sys/fs/cgroup", func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil // others' groups come and go
		}
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err == nil && slices.Contains(strings.Fields(string(text)), strconv.Itoa(pid)) {
			bounds = append(bounds, filepath.Join(filepath.Dir(dir), file))
		}
		return nil
	})
	set := func(value string) (done bool) {
		for _, name := range bounds {
			done = os.WriteFile(name, []byte(value), 0) == nil || done
		}
		return done
	}
	if !set("0") {
		t.Skip("no control groups of version 2, whose number can be bounded")
	}
	free = sync.OnceFunc(func() { set("max") })
	t.Cleanup(free)
	return free
}
