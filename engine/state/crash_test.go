package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"

	"aether/sandbox"
)

// brittle is a disk that fails at a step: once, as one that is full does, or for good,
// as for a program that was killed then.
type brittle struct {
	osDisk
	left   int
	killed bool // from then on nothing is done
	full   bool
}

var errKilled = errors.New("killed")

// step counts; half says that this one is done by half, and err that it is not done.
func (b *brittle) step() (half bool, err error) {
	if b.killed {
		return false, errKilled
	}
	b.left--
	if b.left >= 0 {
		return false, nil
	}
	if b.full {
		if b.left == -1 {
			return true, syscall.ENOSPC
		}
		return false, nil
	}
	b.killed = true
	return b.left%2 == 0, errKilled
}

func (b *brittle) write(path string, contents []byte, sync bool) error {
	half, err := b.step()
	if half {
		_ = b.osDisk.write(path, contents[:len(contents)/2], false)
	}
	if err != nil {
		return err
	}
	return b.osDisk.write(path, contents, sync)
}

func (b *brittle) append(file *os.File, lines []byte) error {
	half, err := b.step()
	if half {
		_ = b.osDisk.append(file, lines[:len(lines)/2])
	}
	if err != nil {
		return err
	}
	return b.osDisk.append(file, lines)
}

func (b *brittle) unless(do func() error) error {
	if _, err := b.step(); err != nil {
		return err
	}
	return do()
}

func (b *brittle) mkdir(path string) error {
	return b.unless(func() error { return b.osDisk.mkdir(path) })
}
func (b *brittle) rename(from, to string) error {
	return b.unless(func() error { return b.osDisk.rename(from, to) })
}
func (b *brittle) sync(dir string) error { return b.unless(func() error { return b.osDisk.sync(dir) }) }
func (b *brittle) removeAll(path string) error {
	return b.unless(func() error { return b.osDisk.removeAll(path) })
}
func (b *brittle) syncFile(file *os.File) error {
	return b.unless(func() error { return b.osDisk.syncFile(file) })
}

// life is what an engine does to its state. answered is what it was told is kept;
// begun is what it has asked for since and was not answered.
type life struct {
	answered     map[string]int // -1 is removed
	begun        map[string][]int
	lines, asked int
}

func (l *life) ask(id string, n int, do func() error) {
	l.begun[id] = append(l.begun[id], n)
	if do() == nil {
		l.answered[id] = n
		delete(l.begun, id)
	}
}

func (l *life) live(k *Kind[thing], j *Journal) {
	put := func(id string, n int, durable bool) {
		do := k.Note
		if durable {
			do = k.Save
		}
		l.ask(id, n, func() error { return do(id, thing{id, n}) })
	}
	for n := range 3 {
		put("a", n, true)
		put(fmt.Sprintf("b%d", n), n, n%2 == 0)
		l.asked++
		if j.Append(n) == nil {
			l.lines++
		}
	}
	l.ask("b0", -1, func() error { return k.Remove("b0") })
	put("a", 9, true)
}

// check holds what is found against what was answered: that is there, and of what was
// not answered the old or the new.
func (l *life) check(t *testing.T, step int, found map[string]thing, lines int) {
	t.Helper()
	now := map[string]int{}
	for id, r := range found {
		now[id] = r.Count
	}
	for id, want := range l.answered {
		got, there := now[id]
		if !there {
			got = -1
		}
		if got != want && !slices.Contains(l.begun[id], got) {
			t.Errorf("step %d: %s is %d, and was answered as %d", step, id, got, want)
		}
		delete(now, id)
	}
	for id, got := range now {
		if !slices.Contains(l.begun[id], got) {
			t.Errorf("step %d: %s is %d and was never asked for", step, id, got)
		}
	}
	if lines < l.lines || lines > l.asked {
		t.Errorf("step %d: the journal has %d lines of %d that were answered and %d that were asked for", step, lines, l.lines, l.asked)
	}
}

// TestEveryStepMayBeTheLast: whenever the program is killed or the disk is full, all
// that was answered is there, and the next program goes on.
func TestEveryStepMayBeTheLast(t *testing.T) {
	for _, full := range []bool{false, true} {
		steps := 0
		for ; ; steps++ {
			path := t.TempDir()
			disk := &brittle{left: steps, full: full}
			d := openTest(t, path, disk)
			j, err := d.OpenJournal("journal", JournalOptions{FileBytes: 4, Files: 9, Durable: true})
			if err != nil {
				t.Fatal(err)
			}
			l := life{answered: map[string]int{}, begun: map[string][]int{}}
			l.live(things(t, d), j)
			if err := errors.Join(j.Close(), d.Close()); err != nil {
				t.Fatal(err)
			}
			next := openTest(t, path, osDisk{})
			found, err := things(t, next).All()
			if err != nil {
				t.Fatalf("step %d: %v", steps, err)
			}
			if j, err = next.OpenJournal("journal", JournalOptions{FileBytes: 4, Files: 9}); err != nil {
				t.Fatalf("step %d: %v", steps, err)
			}
			lines := 0
			if err := j.Replay(func(json.RawMessage) error { lines++; return nil }); err != nil {
				t.Fatalf("step %d: %v", steps, err)
			}
			l.check(t, steps, found, lines)
			if err := errors.Join(things(t, next).Save("a", thing{"a", 1}), j.Append("more"), j.Close(), next.Close()); err != nil {
				t.Errorf("step %d: it does not go on: %v", steps, err)
			}
			if disk.left >= 0 {
				break // nothing failed
			}
		}
		if steps < 20 {
			t.Errorf("there were %d steps only", steps)
		}
	}
}

func TestFullDiskIsExhausted(t *testing.T) {
	d := openTest(t, t.TempDir(), &brittle{left: 0, full: true})
	defer d.Close()
	err := things(t, d).Save("a", thing{})
	if sandbox.ClassOf(err) != sandbox.Exhausted {
		t.Errorf("%v", err)
	}
	if all, err := things(t, d).All(); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}
