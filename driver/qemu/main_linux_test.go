package qemu

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"aether/driver/drivertest"
	"aether/driver/guestagent"
	"aether/driver/guestagent/guestagenttest"
	"aether/image"
	"aether/image/kernel"
	"aether/internal/testroot"
	"aether/sandbox"
)

// Names of what the tests are given: by a caller who has it, as the lab for KVM
// does, or by the first process of a run to those that it starts.
const (
	kernelVariable = "AETHER_KERNEL"
	imageVariable  = "AETHER_TEST_IMAGE"
	stateVariable  = "AETHER_TEST_STATE"
)

func TestMain(m *testing.M) {
	if os.Getenv(stateVariable) != "" {
		os.Exit(drivertest.Main(m, newDriver)) // plays a program that is killed
	}
	os.Exit(withState(m))
}

// withState makes what all tests share: disks and the unpacked kernel.
func withState(m *testing.M) int {
	dir, err := os.MkdirTemp("", "aether-qemu-")
	if err == nil {
		err = prepare(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "qemu:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	return drivertest.Main(m, newDriver)
}

func prepare(dir string) error {
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
	return guestagenttest.Build(dir)
}

func testOptions(runDir string) Options {
	state := os.Getenv(stateVariable)
	return Options{
		Images:   func() (*image.Store, error) { return image.Open(filepath.Join(state, "images")) },
		Guest:    guestagent.Find,
		StateDir: state,
		RunDir:   runDir,
		Kernel:   kernel.Places{Named: os.Getenv(kernelVariable)},
	}
}

// freshState is a state without templates and disks. The unpacked kernel is shared:
// it takes longer to make than a machine.
func freshState(t *testing.T) string {
	t.Helper()
	needMachine(t)
	makeOnce(t, driverWith(t, func(*Options) {}))
	fresh := Options{StateDir: t.TempDir()}
	if err := os.Mkdir(fresh.kernelDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	kernels, err := filepath.Glob(filepath.Join(testOptions("").kernelDir(), "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range kernels {
		if err := os.Link(name, filepath.Join(fresh.kernelDir(), filepath.Base(name))); err != nil {
			t.Fatal(err)
		}
	}
	return fresh.StateDir
}

func newDriver(runDir string) sandbox.Driver { return New(testOptions(runDir)) }

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

// needMachine skips where the host lacks what machines are made of.
func needMachine(t *testing.T) {
	t.Helper()
	if err := findKernel(); err != nil {
		t.Skipf("no kernel for machines: %v", err)
	}
	if report := newDriver(t.TempDir()).Probe(t.Context()); !report.Usable {
		t.Skipf("no machines here: %s", report.Reason)
	}
}
