package qemu

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"aether/driver/vmm"
	"aether/driver/vmm/vmmtest"
	"aether/image/kernel"
	"aether/internal/host/cgroup"
	"aether/sandbox"
)

var suite = vmmtest.Suite{New: func(o vmm.Options) *vmm.Driver { return New(Options{Options: o}) }}

func TestMain(m *testing.M) { os.Exit(suite.Main(m)) }

func testSpec() sandbox.Spec { return sandbox.Spec{Image: vmmtest.Image()} }

func newDriver(runDir string) sandbox.Driver { return suite.New(vmmtest.Options(runDir)) }

// driverWith makes a driver with options of its own, and wants nothing to be left
// of it at the end.
func driverWith(t *testing.T, change func(*Options)) *vmm.Driver {
	t.Helper()
	suite.Need(t)
	opts := Options{Options: vmmtest.Options(t.TempDir())}
	change(&opts)
	d := New(opts)
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if n, err := cgroup.Reap(context.Background(), opts.RunDir); n != 0 || err != nil {
			t.Errorf("%d groups are left, %v", n, err)
		}
	})
	return d
}

// kernelImage is the kernel of the tests' machines.
func kernelImage(t *testing.T) string {
	t.Helper()
	suite.Need(t)
	k, err := kernel.Find(vmmtest.Options("").Kernel)
	if err != nil {
		t.Fatal(err)
	}
	return k.Image
}

// unpack takes its time once for each kernel.
func unpack(t *testing.T, opts vmm.Options) string {
	t.Helper()
	dir := filepath.Join(opts.StateDir, "vmlinux")
	k, err := kernel.Find(opts.Kernel)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := k.OpenUnpacked(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	unpacked.Close()
	return dir
}

// freshState is a state without templates and disks. The unpacked kernel is shared:
// it takes longer to make than a machine.
func freshState(t *testing.T) string {
	t.Helper()
	suite.Need(t)
	state := t.TempDir()
	dir := filepath.Join(state, "vmlinux")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	kernels, err := filepath.Glob(filepath.Join(unpack(t, vmmtest.Options("")), "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range kernels {
		if err := os.Link(name, filepath.Join(dir, filepath.Base(name))); err != nil {
			t.Fatal(err)
		}
	}
	return state
}
