package drivertest

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/driver/drivertest/leaktest"
	"aether/internal/soak"
	"aether/sandbox"
)

const victimWorkers = 2

// churn makes and ends sandboxes until it is killed.
func churn(driver sandbox.Driver) error {
	if err := os.WriteFile(markFile, []byte(os.Getenv(markVariable)), 0); err != nil {
		return err
	}
	failures := make([]error, victimWorkers)
	var workers sync.WaitGroup
	for n := range victimWorkers {
		workers.Go(func() {
			for failures[n] == nil {
				failures[n] = life(context.Background(), driver, os.Getenv(imageVariable))
			}
		})
	}
	workers.Wait()
	return errors.Join(failures...)
}

// killed kills programs at any moment. What the kernel does not remove then, the
// next program's Reap must.
func (c Config) killed(t *testing.T) {
	c.makeImage(t)
	seed := rand.Uint64()
	moments := rand.New(rand.NewPCG(seed, 0))
	rounds, latest := soak.Count(max(c.few(10), 3), 200), c.within(300*time.Millisecond)
	first := leaktest.FreeMarks(t, 600, 900, rounds)
	mounts, held, alive := leaktest.Mounts(t, t.TempDir()), c.held(t), 0
	var all []victim
	for n := range rounds {
		v := victim{mark: strconv.Itoa(first + n), dir: t.TempDir(), after: time.Duration(moments.Int64N(int64(latest)))}
		if n == 0 {
			v.after, v.surely = latest, true
		}
		if v.die(t, c) > 0 {
			alive++
		}
		all = append(all, v)
	}
	t.Logf("seed %d: %d programs were killed, %d of them with sandboxes", seed, len(all), alive)
	if alive == 0 {
		t.Error("no program was killed while it had sandboxes")
	}
	for _, v := range all {
		v.reap(t, c)
	}
	var left []string
	if !c.eventually(func() bool { left = orphans(t, all); return len(left) == 0 }) {
		t.Errorf("killed programs leave %q", left)
	}
	c.wantReaped(t, all, held)
	if grown := leaktest.NewIn(mounts, leaktest.Mounts(t, t.TempDir())); len(grown) > 0 {
		t.Errorf("mounts are left: %q", grown)
	}
}

// wantReaped wants a daemon to hold no more than before. It may have finished
// making a sandbox after its program was reaped: the next reap is for that.
func (c Config) wantReaped(t *testing.T, all []victim, before []string) {
	t.Helper()
	var left []string
	if c.eventually(func() bool {
		if left = leaktest.NewIn(before, c.held(t)); len(left) > 0 {
			for _, v := range all {
				if reaper, ok := c.New(v.dir).(sandbox.Reaper); ok {
					_, _ = reaper.Reap(c.patient(t))
				}
			}
		}
		return len(left) == 0
	}) {
		return
	}
	t.Errorf("killed programs leave %q", left)
}

// makeImage has an image unpacked, if it was not: programs that are killed soon
// would not come to make a sandbox.
func (c Config) makeImage(t *testing.T) {
	t.Helper()
	driver := c.New(t.TempDir())
	closeAfter(t, driver)
	if err := life(c.patient(t), driver, c.Image); err != nil {
		t.Fatal(err)
	}
}

// victim is a program that is killed some time after its start.
type victim struct {
	mark  string // what its processes are known by
	dir   string
	after time.Duration
	// surely has it live on until it has sandboxes: some host is slow.
	surely bool
}

// die lets the program live its time and says how many children it had, or what
// its system held for it.
func (v victim) die(t *testing.T, c Config) (children int) {
	t.Helper()
	cmd, stderr := osexec.Command("/proc/self/exe"), &strings.Builder{}
	cmd.Stderr = stderr
	cmd.Env = append(os.Environ(), roleVariable+"="+v.dir, markVariable+"="+v.mark, imageVariable+"="+c.Image)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	before := c.held(t)
	time.Sleep(v.after)
	c.eventually(func() bool {
		children = len(leaktest.Descendants(t, cmd.Process.Pid)) + len(leaktest.NewIn(before, c.held(t)))
		return children > 0 || !v.surely
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() >= 0 {
		t.Fatalf("the program ended by itself (%v): %s", cmd.ProcessState, stderr)
	}
	return children
}

// reap lets the next program remove what the kernel did not. The dying processes
// of the last one may still hold its locks, so it is asked again for a while.
func (v victim) reap(t *testing.T, c Config) {
	t.Helper()
	groups := leaktest.Groups(t, v.dir)
	next := c.New(v.dir)
	reaper, ok := next.(sandbox.Reaper)
	var left []string
	if !c.eventually(func() bool {
		if ok {
			if _, err := reaper.Reap(c.patient(t)); err != nil {
				t.Fatalf("reap: %v", err)
			}
		}
		left = v.left(groups)
		return len(left) == 0
	}) {
		t.Errorf("%q are left", left)
	}
	if ok {
		c.wantNothingToReap(t, reaper)
	}
	if closer, ok := next.(sandbox.Closer); ok {
		if err := closer.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// wantNothingToReap wants nothing to be found where nothing is left. A daemon may have
// finished making a sandbox for the dead program by now, but not again and again.
func (c Config) wantNothingToReap(t *testing.T, reaper sandbox.Reaper) {
	t.Helper()
	for tries := 1 + 2*victimWorkers; ; tries-- {
		count, err := reaper.Reap(c.patient(t))
		if err == nil && count == 0 {
			return
		}
		if err != nil || c.Left == nil || tries == 1 {
			t.Errorf("with nothing left, another reap finds %d (%v)", count, err)
			return
		}
	}
}

// left are those of its cgroups that exist, and the locks that speak of them.
func (v victim) left(groups []string) []string {
	found := leaktest.Locks(v.dir)
	for _, dir := range groups {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			found = append(found, dir)
		}
	}
	return found
}

// orphans are living processes with a mark. A dead one waits for the host's init
// only.
func orphans(t *testing.T, all []victim) []string {
	t.Helper()
	marks := map[string]time.Duration{}
	for _, v := range all {
		marks[v.mark] = v.after
	}
	return leaktest.Marked(t, marks)
}
