package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func replayed(t *testing.T, j *Journal) (list []string) {
	t.Helper()
	if err := j.Replay(func(line json.RawMessage) error { list = append(list, string(line)); return nil }); err != nil {
		t.Fatal(err)
	}
	return list
}

// counting counts how often the disk is waited for.
type counting struct {
	osDisk
	syncs atomic.Int64
}

func (c *counting) syncFile(file *os.File) error {
	c.syncs.Add(1)
	return c.osDisk.syncFile(file)
}

// TestJournalSharesTheWait: lines of many at once are all there, in few waits.
func TestJournalSharesTheWait(t *testing.T) {
	disk := &counting{}
	d := openTest(t, t.TempDir(), disk)
	defer d.Close()
	j, err := d.OpenJournal("keys", JournalOptions{FileBytes: 1 << 20, Files: 3, Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 50, 20
	var work sync.WaitGroup
	for w := range writers {
		work.Go(func() {
			for n := range each {
				if err := j.Append(fmt.Sprintf("%d-%d", w, n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	seen := map[string]bool{}
	for _, line := range replayed(t, j) {
		seen[line] = true
	}
	if len(seen) != writers*each {
		t.Errorf("%d of %d lines", len(seen), writers*each)
	}
	if syncs := disk.syncs.Load(); syncs >= writers*each {
		t.Errorf("%d waits for %d lines", syncs, writers*each)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.Append("late"); !errors.Is(err, errJournalClosed) {
		t.Errorf("after its end: %v", err)
	}
}

// TestJournalIsBounded: old files go, and the newest lines stay.
func TestJournalIsBounded(t *testing.T) {
	path := t.TempDir()
	d := openTest(t, path, osDisk{})
	defer d.Close()
	j, err := d.OpenJournal("audit", JournalOptions{FileBytes: 100, Files: 3})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 200 {
		if err := j.Append(n); err != nil {
			t.Fatal(err)
		}
	}
	lines := replayed(t, j)
	if len(lines) > 120 || lines[len(lines)-1] != "199" {
		t.Errorf("%d lines, the last is %s", len(lines), lines[len(lines)-1])
	}
	if numbers, err := j.numbers(); err != nil || len(numbers) != 3 {
		t.Errorf("the files are %v, %v", numbers, err)
	}
	if err := j.Append(strings.Repeat("x", maxLine)); err == nil {
		t.Error("a line of any length is taken")
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

// TestJournalOfTheDead: a line that was written in part is cut off, and the next one
// is whole.
func TestJournalOfTheDead(t *testing.T) {
	path := t.TempDir()
	d := openTest(t, path, osDisk{})
	defer d.Close()
	for cut := range 9 {
		j, err := d.OpenJournal("events", JournalOptions{FileBytes: 1 << 20, Files: 1})
		if err != nil {
			t.Fatal(err)
		}
		before := len(replayed(t, j))
		if err := j.Append("whole"); err != nil {
			t.Fatal(err)
		}
		if _, err := j.file.WriteString(`"partly"`[:cut]); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if j, err = d.OpenJournal("events", JournalOptions{FileBytes: 1 << 20, Files: 1}); err != nil {
			t.Fatal(err)
		}
		if err := j.Append("next"); err != nil {
			t.Fatal(err)
		}
		if lines := replayed(t, j); len(lines) != before+2 || lines[len(lines)-1] != `"next"` {
			t.Errorf("cut at %d: %v", cut, lines)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestJournalSync: what was appended before is on disk, in whichever file it is, and
// nobody who appends has waited for that.
func TestJournalSync(t *testing.T) {
	disk := &counting{}
	d := openTest(t, t.TempDir(), disk)
	defer d.Close()
	j, err := d.OpenJournal("audit", JournalOptions{FileBytes: 200, Files: 100})
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	for w := range 4 {
		work.Go(func() {
			for n := range 100 {
				if err := j.Append(fmt.Sprintf("%d-%d", w, n)); err != nil {
					t.Error(err)
				}
			}
		})
		work.Go(func() {
			for range 10 {
				if err := j.Sync(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	numbers, err := j.numbers()
	if lines := replayed(t, j); len(lines) != 400 || err != nil {
		t.Errorf("%d lines, %v", len(lines), err)
	}
	// One for each call, and one for each file that was left.
	if syncs := disk.syncs.Load(); syncs != int64(40+len(numbers)-1) {
		t.Errorf("%d waits for the disk, %d files", syncs, len(numbers))
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if err := j.Sync(); err == nil {
		t.Error("a closed journal is synced")
	}
}
