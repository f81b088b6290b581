package cell_test

import (
	"context"
	"fmt"
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

// TestCellsAheadThatFailAreLogged takes the names away that the groups of the next
// cells would have, so that none can be made.
func TestCellsAheadThatFailAreLogged(t *testing.T) {
	needRoot(t, "cgroups whose names can be taken")
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
	free := takeNames(t, groupsOf(t, initOf(t)))
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

// groupsOf are the directories of a process's groups that are named for a cell.
func groupsOf(t *testing.T, pid int) (dirs []string) {
	t.Helper()
	filepath.WalkDir("/sys/fs/cgroup", func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || !strings.HasPrefix(entry.Name(), "cell-") {
			return nil // others' groups come and go
		}
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err == nil && slices.Contains(strings.Fields(string(text)), strconv.Itoa(pid)) {
			dirs = append(dirs, dir)
		}
		return nil
	})
	if len(dirs) == 0 {
		t.Fatal("the cell is in no group")
	}
	return dirs
}

// takeNames makes groups beside others, of names that come later, until free.
func takeNames(t *testing.T, beside []string) (free func()) {
	t.Helper()
	var made []string
	for _, dir := range beside {
		for n := 10; n < 300; n++ {
			name := filepath.Join(filepath.Dir(dir), fmt.Sprintf("cell-%d", n))
			if err := os.Mkdir(name, 0o755); err != nil {
				t.Fatal(err)
			}
			made = append(made, name)
		}
	}
	free = sync.OnceFunc(func() {
		for _, name := range made {
			if err := os.Remove(name); err != nil {
				t.Error(err)
			}
		}
	})
	t.Cleanup(free)
	return free
}
