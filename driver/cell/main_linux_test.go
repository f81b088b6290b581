package cell_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/driver/drivertest/leaktest"
	"aether/image"
	"aether/internal/unprivtest"
	"aether/network/networktest"
	"aether/sandbox"
)

// roleVariable makes the test binary play a part instead of running tests.
const roleVariable = "AETHER_CELL_TEST_ROLE"

var roles = map[string]func() error{churnRole: churn, boundedRole: holdBounded}

// scratch holds what all tests of one run share.
var scratch string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if play, ok := roles[os.Getenv(roleVariable)]; ok {
		if err := play(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	dir, err := os.MkdirTemp("", "aether-cell-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.Chmod(dir, 0o711), networktest.Build(dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	scratch = dir
	return m.Run()
}

// images is one store for all tests: making the host's skeleton anew for each
// would take most of the time.
var images = sync.OnceValues(func() (*image.Store, error) {
	return image.Open(filepath.Join(scratch, "images"))
})

// ahead is how much a driver that makes many cells keeps ready.
const ahead = 16

func optionsIn(runDir string, ahead int) cell.Options {
	return cell.Options{Images: images, RunDir: runDir, Ahead: ahead}
}

// newDriver gives a driver of the test's own, which must leave nothing.
func newDriver(t testing.TB) (driver *cell.Driver, runDir string) {
	t.Helper()
	return newDriverAhead(t, 0)
}

func newDriverAhead(t testing.TB, ahead int) (driver *cell.Driver, runDir string) {
	t.Helper()
	runDir = filepath.Join(t.TempDir(), "run")
	driver = cell.New(optionsIn(runDir, ahead))
	t.Cleanup(func() {
		if err := driver.Close(context.Background()); err != nil {
			t.Errorf("close the driver: %v", err)
		}
		for _, lock := range leaktest.Locks(runDir) {
			t.Errorf("%s is left in the run directory", lock)
		}
	})
	return driver, runDir
}

// newCell gives a cell of a driver of its own.
func newCell(t testing.TB, spec sandbox.Spec) sandbox.Instance {
	t.Helper()
	driver, _ := newDriver(t)
	return create(t, driver, spec)
}

func create(t testing.TB, driver sandbox.Driver, spec sandbox.Spec) sandbox.Instance {
	t.Helper()
	instance, err := driver.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { destroy(t, instance) })
	return instance
}

func destroy(t testing.TB, instance sandbox.Instance) {
	t.Helper()
	if err := instance.Destroy(context.Background()); err != nil {
		t.Errorf("destroy %s: %v", instance.ID(), err)
	}
}

// ordinary says that these tests run without the rights of root.
func ordinary() bool { return !unprivtest.Privileged() }

func needRoot(t testing.TB, what string) {
	t.Helper()
	if ordinary() {
		t.Skipf("an ordinary user has no %s", what)
	}
}

// need skips where the host, whose programs the cells have, lacks one.
func need(t testing.TB, program string) {
	t.Helper()
	for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/bin"} {
		if _, err := os.Stat(filepath.Join(dir, program)); err == nil {
			return
		}
	}
	t.Skipf("this host has no %s", program)
}

// paceVariable says how many times slower than others this machine is, where that
// is known: an emulated one.
const paceVariable = "AETHER_TEST_PACE"

var pace = sync.OnceValue(func() float64 {
	if stated, err := strconv.ParseFloat(os.Getenv(paceVariable), 64); err == nil && stated > 1 {
		return stated
	}
	return 1
})

// slowest is how many times longer anything may take while others have the processors.
// Who waits for something that comes loses nothing by it.
const slowest = 10

// patience stretches what would be long enough on a machine that is idle.
func patience(d time.Duration) time.Duration { return time.Duration(float64(d) * max(pace(), slowest)) }

// eventually waits for something that the kernel does in its own time.
func eventually(within time.Duration, holds func() bool) bool {
	for deadline := time.Now().Add(patience(within)); ; time.Sleep(5 * time.Millisecond) {
		if holds() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// forkInto forks a source that may be in a state that has to pass first: it may wait for a disk.
func forkInto(t testing.TB, source sandbox.Instance, specs ...sandbox.Spec) (children []sandbox.Instance) {
	t.Helper()
	var err error
	if !eventually(10*time.Second, func() bool {
		children, err = source.(sandbox.Forker).Fork(t.Context(), specs)
		return err == nil || !passes(err)
	}) || err != nil {
		t.Fatal(err)
	}
	return children
}

// passes says that an error is one of a state that passes.
func passes(err error) bool {
	var e *sandbox.Error
	return errors.As(err, &e) && e.Retry
}
