package vmmtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"aether/driver/drivertest"
	"aether/driver/guestagent"
	"aether/driver/guestagent/guestagenttest"
	"aether/driver/vmm"
	"aether/image"
	"aether/image/kernel"
	"aether/internal/testroot"
	"aether/network/networktest"
	"aether/sandbox"
)

// Names of what the tests are given: by a caller who has it, as the lab for KVM
// does, or by the first process of a run to those that it starts.
const (
	kernelVariable = "AETHER_KERNEL"
	imageVariable  = "AETHER_TEST_IMAGE"
	stateVariable  = "AETHER_TEST_STATE"
	// binaryVariable is the monitor that the tests were asked to be run with:
	// where it is set, one that cannot be used is a failure.
	binaryVariable = "AETHER_TEST_BINARY"
	// paceVariable says how slow machines are, where that is known.
	paceVariable = "AETHER_TEST_PACE"
)

// Suite holds one monitor's driver to the contract of all drivers, on real
// machines.
type Suite struct {
	New func(vmm.Options) *vmm.Driver
}

func (s Suite) driver(runDir string) sandbox.Driver { return s.New(Options(runDir)) }

// Options are those of a driver that keeps its locks in a directory.
func Options(runDir string) vmm.Options {
	state := os.Getenv(stateVariable)
	return vmm.Options{
		Images:   func() (*image.Store, error) { return image.Open(filepath.Join(state, "images")) },
		Guest:    guestagent.Find,
		StateDir: state,
		RunDir:   runDir,
		Kernel:   kernel.Places{Named: os.Getenv(kernelVariable)},
		Program:  os.Getenv(binaryVariable),
		Network:  networktest.Service(),
	}
}

// Image is a small one that machines boot fast from.
func Image() string { return os.Getenv(imageVariable) }

// Main runs the tests, with what they share: disks, images and an unpacked kernel.
func (s Suite) Main(m *testing.M) int {
	if os.Getenv(stateVariable) != "" {
		return drivertest.Main(m, s.driver) // plays a program that is killed
	}
	dir, err := os.MkdirTemp("", "aether-vmm-")
	if err == nil {
		err = Prepare(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vmmtest:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	return drivertest.Main(m, s.driver)
}

// Prepare makes in a directory what Options and Image tell of.
func Prepare(dir string) error {
	os.Setenv(stateVariable, filepath.Join(dir, "state"))
	if os.Getenv(imageVariable) == "" {
		small := filepath.Join(dir, "image")
		if err := os.Mkdir(small, 0o755); err != nil {
			return err
		}
		if err := testroot.Make(small, testroot.Shell, nil); err != nil {
			return err
		}
		os.Setenv(imageVariable, small)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	if err := networktest.Build(dir); err != nil {
		return err
	}
	return guestagenttest.Build(dir)
}

// findKernel looks for a kernel once, and fetches one where there is none.
var findKernel = sync.OnceValue(func() error {
	if os.Getenv(kernelVariable) != "" {
		return nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "aether-test-kernels")
	k, err := kernel.Find(kernel.Places{Installed: dir})
	if sandbox.ClassOf(err) == sandbox.NotFound {
		k, err = kernel.Install(context.Background(), dir)
	}
	if err == nil {
		os.Setenv(kernelVariable, k.Image)
	}
	return err
})

// Need skips where the host lacks what machines are made of.
func (s Suite) Need(t testing.TB) {
	t.Helper()
	report := s.probe(t)
	if !report.Usable && report.Version != "" && findKernel() == nil { // which may have been all that it lacked
		report = s.probe(t)
	}
	if !report.Usable && os.Getenv(binaryVariable) != "" {
		t.Fatalf("no machines with %s: %s (%s)", os.Getenv(binaryVariable), report.Reason, report.Remedy)
	}
	if !report.Usable {
		t.Skipf("no machines here: %s (%s)", report.Reason, report.Remedy)
	}
}

// probe asks more than once in the lab, which may be too slow for the time that a
// probe has: what has worked once is remembered, and whoever wants a machine waits
// longer.
func (s Suite) probe(t testing.TB) (report sandbox.Report) {
	t.Helper()
	attempts := 1
	if os.Getenv(paceVariable) != "" {
		attempts = 8
	}
	for range attempts {
		driver := s.New(Options(t.TempDir()))
		if report = driver.Probe(t.Context()); report.Usable || attempts == 1 {
			break
		}
		_, err := driver.Restore(t.Context(), t.TempDir(), sandbox.Checkpoint, sandbox.Spec{})
		t.Logf("%s; without a snapshot: %v", report.Reason, err)
	}
	return report
}

// Run is the suite.
func (s Suite) Run(t *testing.T) {
	s.Need(t)
	drivertest.Run(t, drivertest.Config{New: s.driver, Image: Image(), Pace: pace(t), Memory: 192 << 20})
}

// pace is by default for a host with KVM.
func pace(t *testing.T) float64 {
	t.Helper()
	text := os.Getenv(paceVariable)
	if text == "" {
		return 5
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatalf("%s: %v", paceVariable, err)
	}
	return n
}
