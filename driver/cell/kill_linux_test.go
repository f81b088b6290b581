package cell_test

import (
	"context"
	"errors"
	"fmt"
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
	"aether/guest"
	"aether/image"
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

func TestKilledAtAnyMoment(t *testing.T) {
	driver, runDir := newDriver(t)
	if err := life(t.Context(), driver); err != nil { // makes the image
		t.Fatal(err)
	}
	if err := driver.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	moments := rand.New(rand.NewPCG(seed, 0))
	mounts, rounds, latest := lines(t, "/proc/self/mountinfo"), 100, 150*time.Millisecond
	if testing.Short() {
		rounds = 20
	}
	if raceEnabled {
		latest *= 2 // it also starts more slowly
	}
	killed, began := killings{t: t, runDir: runDir, mark: 100 + moments.IntN(800)}, time.Now()
	for round := range rounds {
		killed.once(time.Duration(moments.Int64N(int64(latest))), round)
		if t.Failed() {
			t.Fatalf("round %d of seed %d", round, seed)
		}
	}
	if now := lines(t, "/proc/self/mountinfo"); len(now) > len(mounts) {
		t.Errorf("mounts are left: %q", newIn(mounts, now))
	}
	t.Logf("%d programs killed in %v: %d left processes dying, %d left cgroups to reap",
		rounds, time.Since(began).Round(time.Millisecond), killed.withProcesses, killed.withGroups)
	if !testing.Short() && (killed.withProcesses == 0 || !ordinary() && killed.withGroups == 0) {
		t.Error("no program was killed while it had cells")
	}
}

// killings counts what killed programs had at their end, so that a test that
// kills too early is noticed.
type killings struct {
	t                         *testing.T
	runDir                    string
	mark                      int
	withProcesses, withGroups int
}

func (k *killings) once(after time.Duration, round int) {
	k.t.Helper()
	cmd, stderr := k.program()
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	time.Sleep(after)
	if len(descendants(k.t, cmd.Process.Pid)) > 0 {
		k.withProcesses++
	}
	if err := cmd.Process.Kill(); err != nil {
		k.t.Fatalf("%v: %s", err, stderr)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() >= 0 {
		k.t.Fatalf("the program ended by itself (%v): %s", cmd.ProcessState, stderr)
	}
	k.wantNoOrphans(after)
	k.wantReaped(round)
}

func (k *killings) wantNoOrphans(after time.Duration) {
	k.t.Helper()
	var left, last []string
	began := time.Now()
	gone := eventually(orphansAreGone, func() bool {
		left = k.orphans()
		if len(left) > 0 {
			last = left
		}
		return len(left) == 0
	})
	if !gone {
		k.t.Errorf("%v after its start a killed program leaves %q", after, left)
	}
	if took := time.Since(began); took > time.Second {
		k.t.Logf("%q died %v after their program", last, took)
	}
}

func (k *killings) program() (*exec.Cmd, *strings.Builder) {
	cmd := exec.Command("/proc/self/exe")
	store := filepath.Join(scratch, "images")
	cmd.Env = append(os.Environ(), roleVariable+"="+churnRole, churnStore+"="+store, churnRunDir+"="+k.runDir, churnMark+"="+strconv.Itoa(k.mark))
	stderr := &strings.Builder{}
	cmd.Stderr = stderr
	return cmd, stderr
}

// orphans are living processes with the mark. A dead one waits for the host's
// init only.
func (k *killings) orphans() (found []string) {
	for _, p := range peers(k.t) {
		adjust, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", p.pid))
		if err != nil || strings.TrimSpace(string(adjust)) != strconv.Itoa(k.mark) || p.state == 'Z' || p.state == 'X' {
			continue
		}
		found = append(found, describe([]peer{p})...)
	}
	return found
}

// wantReaped lets the next program, by Reap or by its first cell, remove what
// the kernel did not.
func (k *killings) wantReaped(round int) {
	k.t.Helper()
	left := groups(k.t, k.runDir)
	if len(left) > 0 {
		k.withGroups++
	}
	next := cell.New(optionsIn(k.runDir, 0))
	if round%2 == 0 {
		if _, err := next.Reap(k.t.Context()); err != nil {
			k.t.Errorf("reap: %v", err)
		}
	} else if err := life(k.t.Context(), next); err != nil {
		k.t.Errorf("the next program: %v", err)
	}
	if err := next.Close(k.t.Context()); err != nil {
		k.t.Errorf("close the next program: %v", err)
	}
	for _, dir := range left {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			k.t.Errorf("%s is left (%v)", dir, err)
		}
	}
	if files := tree(k.runDir, func(e fs.DirEntry) bool { return !e.IsDir() }); len(files) > 0 {
		k.t.Errorf("files are left: %q", files)
	}
}
