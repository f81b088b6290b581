package cell_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/driver/drivertest/leaktest"
	"aether/guest"
	"aether/internal/host/proctree"
	"aether/sandbox"
)

func wantClass(t testing.TB, err error, want sandbox.Class, field string) {
	t.Helper()
	if got := sandbox.ClassOf(err); err == nil || got != want {
		t.Errorf("class %v, want %v: %v", got, want, err)
		return
	}
	if field != "" && !namesField(err, field) {
		t.Errorf("the field %s is not named: %v", field, err)
	}
}

// namesField looks through the whole chain: an outer error may add no field.
func namesField(err error, field string) bool {
	var e *sandbox.Error
	return errors.As(err, &e) && (e.Field == field || namesField(e.Err, field))
}

func TestProbeIsUsable(t *testing.T) {
	driver, runDir := newDriver(t)
	report := driver.Probe(t.Context())
	if !report.Usable || report.Reason != "" || report.Version == "" {
		t.Fatalf("%+v", report)
	}
	for _, gap := range report.Gaps {
		if gap.Missing == "" || gap.Cost == "" {
			t.Errorf("a gap does not say what it costs: %+v", gap)
		}
		t.Logf("gap: %s: %s", gap.Missing, gap.Cost)
	}
	if _, err := os.Stat(runDir); !os.IsNotExist(err) {
		t.Errorf("probing has made the run directory: %v", err)
	}
}

func TestDriverLeavesNothing(t *testing.T) {
	if err := life(t.Context(), firstDriver(t)); err != nil { // what is made once for a program
		t.Fatal(err)
	}
	runDir := filepath.Join(t.TempDir(), "run")
	before := takeCensus(t, runDir)
	driver := cell.New(optionsIn(runDir, ahead))
	if err := life(t.Context(), driver); err != nil {
		t.Fatal(err)
	}
	driver.Probe(t.Context())
	if err := driver.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The directories that stages are mounted on stay for the next program.
	before.Files = leaktest.Files(runDir)
	wantNoGrowth(t, before, runDir)
	if left := leaktest.Locks(runDir); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

func firstDriver(t testing.TB) *cell.Driver {
	t.Helper()
	driver, _ := newDriver(t)
	return driver
}

func TestCloseEndsCells(t *testing.T) {
	driver, _ := newDriver(t)
	var instances []sandbox.Instance
	for range 8 {
		instances = append(instances, create(t, driver, sandbox.Spec{}))
	}
	start(t, instances[0], "sleep 1000")
	for range 2 {
		if err := driver.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, instance := range instances {
		exit, err := instance.Wait(t.Context())
		if err != nil || exit.Cause != sandbox.Destroyed {
			t.Errorf("%+v, %v", exit, err)
		}
	}
	_, err := driver.Create(t.Context(), sandbox.Spec{})
	wantClass(t, err, sandbox.Conflict, "")
}

func TestIdentity(t *testing.T) {
	driver, _ := newDriver(t)
	named := create(t, driver, sandbox.Spec{ID: "my-cell"})
	if named.ID() != "my-cell" || sh(t, named, "hostname") != "my-cell" {
		t.Errorf("the id is %q, the host name %q", named.ID(), sh(t, named, "hostname"))
	}
	one, other := create(t, driver, sandbox.Spec{}), create(t, driver, sandbox.Spec{})
	if one.ID() == other.ID() || len(one.ID()) < 26 {
		t.Errorf("minted ids: %q, %q", one.ID(), other.ID())
	}
	if err := (sandbox.Spec{ID: one.ID()}).Validate(); err != nil {
		t.Errorf("a minted id cannot be asked for: %v", err)
	}
}

func TestCreateAndDestroyByMany(t *testing.T) {
	driver, runDir := newDriver(t)
	warm(t, driver, 0)
	before := takeCensus(t, runDir)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			instance, err := driver.Create(t.Context(), sandbox.Spec{})
			if err != nil {
				t.Error(err)
				return
			}
			var destroyers sync.WaitGroup
			for range 8 {
				destroyers.Go(func() { destroy(t, instance) })
			}
			destroyers.Wait()
			destroy(t, instance)
		})
	}
	all.Wait()
	wantNoGrowth(t, before, runDir)
}

func TestDestroyDuringExec(t *testing.T) {
	instance := newCell(t, sandbox.Spec{})
	running := start(t, instance, "sleep 1000 & sleep 1000")
	ended := make(chan bool)
	go func() { ended <- cutOff(running) }()
	destroy(t, instance)
	select {
	case cut := <-ended:
		if !cut {
			t.Error("a command that was cut off is said to have ended by itself")
		}
	case <-time.After(patience(5 * time.Second)):
		t.Error("its client still waits")
	}
	for _, p := range descendants(t, os.Getpid()) {
		if p.Name == "sleep" {
			t.Errorf("process %d outlives its cell", p.PID)
		}
	}
}

// cutOff says whether a command was ended with its cell: its client sees the
// signal, or the connection's end, whichever comes first.
func cutOff(running *guest.Running) bool {
	status, err := running.Wait()
	return err != nil || status.Signal == syscall.SIGKILL
}

// TestExecWhileDestroyed starts commands until the cell is gone: none may hang,
// panic or be started in the wrong place.
func TestExecWhileDestroyed(t *testing.T) {
	driver, runDir := newDriver(t)
	warm(t, driver, 0)
	before := takeCensus(t, runDir)
	for range 20 {
		instance, err := driver.Create(t.Context(), sandbox.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() { execUntilGone(t, instance) })
		}
		time.Sleep(3 * time.Millisecond)
		destroy(t, instance)
		callers.Wait()
	}
	wantNoGrowth(t, before, runDir)
}

func execUntilGone(t *testing.T, instance sandbox.Instance) {
	c := guest.NewClient(instance.Dial, guest.ClientOptions{})
	defer c.Close()
	for range 10_000 {
		if _, err := try(t.Context(), c, guest.Cmd{Path: "/bin/true"}); err != nil {
			return
		}
	}
	t.Error("the cell does not end")
}

func TestEndedCellIsNotFound(t *testing.T) {
	instance := newCell(t, sandbox.Spec{})
	destroy(t, instance)
	_, err := instance.Dial(t.Context())
	wantClass(t, err, sandbox.NotFound, "")
	_, err = instance.Stats(t.Context())
	wantClass(t, err, sandbox.NotFound, "")
	wantClass(t, pauser(t, instance).Pause(t.Context()), sandbox.NotFound, "")
}

func TestDestroyIgnoresACancelledContext(t *testing.T) {
	instance := newCell(t, sandbox.Spec{})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := instance.Destroy(gone); err != nil {
		t.Error(err)
	}
	if _, err := instance.Dial(t.Context()); err == nil {
		t.Error("it lives")
	}
}

func TestCreationContextDoesNotBoundTheCell(t *testing.T) {
	driver, _ := newDriver(t)
	ctx, cancel := context.WithCancel(t.Context())
	instance, err := driver.Create(ctx, sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	defer destroy(t, instance)
	cancel()
	sh(t, instance, "true")
}

func TestWaitByMany(t *testing.T) {
	instance := newCell(t, sandbox.Spec{})
	impatient, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := instance.Wait(impatient); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the end of a waiter's context gives %v", err)
	}
	sh(t, instance, "true") // and does not touch the cell
	answers := make(chan string)
	wait := func() {
		exit, err := instance.Wait(t.Context())
		answers <- fmt.Sprint(exit, err)
	}
	for range 8 {
		go wait()
	}
	destroy(t, instance)
	go wait()
	for range 9 {
		if got, want := <-answers, fmt.Sprint(sandbox.Exit{Cause: sandbox.Destroyed}, error(nil)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestLifetimeExpires(t *testing.T) {
	var running *guest.Running
	instance := expiring(t, func(instance sandbox.Instance) (err error) {
		running, err = client(t, instance).Start(t.Context(), shell("sleep 1000"))
		return err
	})
	if !cutOff(running) {
		t.Error("its command is said to have ended by itself")
	}
	destroy(t, instance)
	if exit, _ := instance.Wait(t.Context()); exit.Cause != sandbox.Expired {
		t.Errorf("destroying an expired cell makes it %v", exit.Cause)
	}
}

// expiring gives a cell whose lifetime is over, and in which something was done before. A
// host that is too busy for that is tried again, with a longer life.
func expiring(t *testing.T, do func(sandbox.Instance) error) sandbox.Instance {
	t.Helper()
	driver, _ := newDriver(t)
	for life := time.Second; ; life *= 4 {
		began := time.Now()
		instance := create(t, driver, sandbox.Spec{Timeouts: sandbox.Timeouts{Lifetime: life}})
		err := do(instance)
		if err != nil && (time.Since(began) < life || life > time.Minute) {
			t.Fatal(err)
		}
		exit, failed := instance.Wait(t.Context())
		if took := time.Since(began); failed != nil || exit.Cause != sandbox.Expired || took < life {
			t.Errorf("%+v, %v after %v of %v", exit, failed, took, life)
		}
		if err == nil {
			return instance
		}
	}
}

func TestCrashedInit(t *testing.T) {
	instance := newCell(t, sandbox.Spec{})
	start(t, instance, "sleep 1000")
	if err := proctree.Kill(initOf(t)); err != nil {
		t.Fatal(err)
	}
	exit, err := instance.Wait(t.Context())
	if err != nil || exit.Cause != sandbox.Crashed || exit.Detail == "" {
		t.Errorf("%+v, %v", exit, err)
	}
	if left := descendants(t, os.Getpid()); len(left) > 0 {
		t.Errorf("%q outlive it", describe(left))
	}
}

// initOf finds PID 1 of the only cell.
func initOf(t *testing.T) int {
	t.Helper()
	for _, p := range descendants(t, os.Getpid()) {
		for _, line := range lines(t, fmt.Sprintf("/proc/%d/status", p.PID)) {
			if fields := strings.Fields(line); fields[0] == "NSpid:" && fields[len(fields)-1] == "1" {
				return p.PID
			}
		}
	}
	t.Fatal("there is no PID 1")
	return 0
}

func TestStats(t *testing.T) {
	instance := newCell(t, sandbox.Spec{})
	sh(t, instance, "sleep 1000 >/dev/null 2>&1 & sleep 1000 >/dev/null 2>&1 &")
	stats, err := instance.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if ordinary() {
		if stats != (sandbox.Stats{DiskBytes: stats.DiskBytes, DiskFreeBytes: stats.DiskFreeBytes}) {
			t.Errorf("%+v", stats)
		}
		t.Skip("an ordinary user has no cgroups to count in")
	}
	if stats.DiskBytes == nil || stats.MemoryBytes == nil || *stats.MemoryBytes <= 0 || stats.CPUTime == nil || *stats.CPUTime <= 0 {
		t.Errorf("%+v", stats)
	}
	if stats.Processes == nil || *stats.Processes != 3 { // with PID 1
		t.Errorf("%+v: %d processes", stats, *stats.Processes)
	}
}
