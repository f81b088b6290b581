package cell_test

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/driver/drivertest/leaktest"
	"aether/guest"
	"aether/image"
	"aether/internal/soak"
	"aether/sandbox"
)

// churnRole is a program that makes and ends cells until it is killed.
const (
	churnRole      = "churn"
	churnStore     = "AETHER_CELL_TEST_STORE"
	churnRunDir    = "AETHER_CELL_TEST_RUN"
	churnMark      = "AETHER_CELL_TEST_MARK"
	churnWorkers   = 3
	orphansAreGone = 15 * time.Second
)

func churn() error {
	// Every process that this one leaves anywhere inherits the mark, whatever
	// namespace, session or parent it ends up with.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(os.Getenv(churnMark)), 0); err != nil {
		return err
	}
	driver := cell.New(cell.Options{RunDir: os.Getenv(churnRunDir), Ahead: 4,
		Images: func() (*image.Store, error) { return image.Open(os.Getenv(churnStore)) }})
	failures := make([]error, churnWorkers)
	var workers sync.WaitGroup
	for n := range churnWorkers {
		workers.Go(func() {
			for failures[n] == nil {
				failures[n] = busyLife(driver)
			}
		})
	}
	workers.Wait()
	return errors.Join(failures...)
}

// busyLife is a cell with a daemon left in it and a command that just ran.
func busyLife(driver sandbox.Driver) error {
	ctx := context.Background()
	instance, err := driver.Create(ctx, sandbox.Spec{})
	if err != nil {
		return err
	}
	c := guest.NewClient(instance.Dial, guest.ClientOptions{})
	defer c.Close()
	if _, err := try(ctx, c, shell("setsid sleep 1000 >/dev/null 2>&1 </dev/null & exit 0")); err != nil {
		return err
	}
	return instance.Destroy(ctx)
}

// TestKilledAtAnyMoment kills programs one after another, and only then waits:
// a dying cell is gone when the host's init has reaped the commands that came
// from outside, and some inits take their time.
func TestKilledAtAnyMoment(t *testing.T) {
	driver, _ := newDriver(t)
	if err := life(t.Context(), driver); err != nil { // makes the image
		t.Fatal(err)
	}
	seed, rounds, latest := rand.Uint64(), soak.Count(20, 500), 150*time.Millisecond
	if raceEnabled {
		latest *= 2 // it also starts more slowly
	}
	moments := rand.New(rand.NewPCG(seed, 0))
	before, began := takeCensus(t, t.TempDir()), time.Now()
	first, alive := leaktest.FreeMarks(t, 100, 1000, rounds), 0
	var all []victim
	for n := range rounds {
		v := victim{role: churnRole, mark: strconv.Itoa(first + n), runDir: filepath.Join(t.TempDir(), "run"), after: time.Duration(moments.Int64N(int64(latest)))}
		if n == 0 {
			v.until = 1
		}
		if v.die(t) > 0 {
			alive++
		}
		all = append(all, v)
	}
	t.Logf("%d programs killed in %v, seed %d: %d had children", rounds, time.Since(began).Round(time.Millisecond), seed, alive)
	wantNoOrphans(t, all)
	for n, v := range all {
		v.wantReaped(t, n%2 == 0)
	}
	if alive == 0 {
		t.Error("no program was killed while it had cells")
	}
	after := takeCensus(t, t.TempDir())
	if grown := newIn(before.Mounts, after.Mounts); len(grown) > 0 {
		t.Errorf("mounts are left: %q", grown)
	}
}

// victim is a program that is killed some time after its start.
type victim struct {
	role   string // what it does
	mark   string // what its processes are known by
	runDir string
	after  time.Duration
	until  int // it lives on until it has so many children: some host is slow
}

// die lets the program live its time and says how many children it had.
func (v victim) die(t *testing.T) (children int) {
	t.Helper()
	cmd, stderr := exec.Command("/proc/self/exe"), &strings.Builder{}
	cmd.Stderr = stderr
	cmd.Env = append(os.Environ(), roleVariable+"="+v.role, churnMark+"="+v.mark,
		churnStore+"="+filepath.Join(scratch, "images"), churnRunDir+"="+v.runDir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(v.after)
	eventually(20*time.Second, func() bool {
		children = len(descendants(t, cmd.Process.Pid))
		return children >= v.until
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() >= 0 {
		t.Fatalf("the program ended by itself (%v): %s", cmd.ProcessState, stderr)
	}
	return children
}

func wantNoOrphans(t *testing.T, all []victim) {
	t.Helper()
	var left []string
	began := time.Now()
	if !eventually(orphansAreGone, func() bool { left = orphans(t, all); return len(left) == 0 }) {
		t.Errorf("killed programs leave %q", left)
	}
	t.Logf("the last of their processes was gone after %v", time.Since(began).Round(time.Millisecond))
}

// orphans are living processes with a mark. A dead one waits for the host's
// init only.
func orphans(t *testing.T, all []victim) []string {
	t.Helper()
	marks := map[string]time.Duration{}
	for _, v := range all {
		marks[v.mark] = v.after
	}
	return leaktest.Marked(t, marks)
}

// wantReaped lets the next program, by Reap or by its first cell, remove what
// the kernel did not.
func (v victim) wantReaped(t *testing.T, byReap bool) {
	t.Helper()
	left := leaktest.Groups(t, v.runDir)
	next := cell.New(optionsIn(v.runDir, 0))
	if byReap {
		if _, err := next.Reap(t.Context()); err != nil {
			t.Errorf("reap: %v", err)
		}
	} else if err := life(t.Context(), next); err != nil {
		t.Errorf("the next program: %v", err)
	}
	if err := next.Close(t.Context()); err != nil {
		t.Errorf("close the next program: %v", err)
	}
	for _, dir := range left {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left (%v)", dir, err)
		}
	}
	if files := leaktest.Walk(v.runDir, func(e fs.DirEntry) bool { return !e.IsDir() }); len(files) > 0 {
		t.Errorf("files are left: %q", files)
	}
}
