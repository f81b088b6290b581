package qemu

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/host/cgroup"
	"aether/image/disk"
	"aether/image/kernel"
	"aether/sandbox"
)

// driverWith makes a driver with options of its own, and wants nothing to be left
// of it at the end.
func driverWith(t *testing.T, change func(*Options)) *Driver {
	t.Helper()
	needMachine(t)
	opts := testOptions(t.TempDir())
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

func testSpec() sandbox.Spec { return sandbox.Spec{Image: os.Getenv(imageVariable)} }

// fails wants Create to fail in time, with a class and a word of the reason.
func fails(t *testing.T, d *Driver, class sandbox.Class, word string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	i, err := d.Create(ctx, testSpec())
	if err == nil {
		t.Fatal("a machine came up", i.Destroy(context.Background()))
	}
	if sandbox.ClassOf(err) != class || !strings.Contains(err.Error(), word) {
		t.Errorf("class %v: %v\nwant class %v and %q", sandbox.ClassOf(err), err, class, word)
	}
	if left := machinesLeft(t); len(left) > 0 {
		t.Errorf("processes %v are left of a machine that did not come up", left)
	}
}

func TestKernelThatIsNone(t *testing.T) {
	needMachine(t)
	real := os.Getenv(kernelVariable)
	for name, c := range map[string]struct {
		content func() ([]byte, error)
		class   sandbox.Class
		word    string
	}{
		// A program has the form of a kernel, and QEMU finds out.
		"a program": {func() ([]byte, error) { return os.ReadFile("/bin/true") }, sandbox.Unavailable, "QEMU says"},
		"half a kernel": {func() ([]byte, error) {
			b, err := os.ReadFile(real)
			return b[:len(b)/2], err
		}, sandbox.Invalid, "kernel"},
		"a text": {func() ([]byte, error) { return []byte("a text"), nil }, sandbox.Invalid, "no Linux kernel"},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := c.content()
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			image := filepath.Join(dir, "boot", strings.Replace(filepath.Base(real), "vmlinuz", "vmlinux", 1))
			if err := errors.Join(os.Mkdir(filepath.Dir(image), 0o755), os.WriteFile(image, content, 0o644),
				os.Symlink(filepath.Join(filepath.Dir(filepath.Dir(real)), "lib"), filepath.Join(dir, "lib"))); err != nil {
				t.Fatal(err)
			}
			fails(t, driverWith(t, func(o *Options) { o.Kernel = kernel.Places{Named: image} }), c.class, c.word)
		})
	}
}

func TestInitThatDoesNotRun(t *testing.T) {
	// It needs libraries, which the initramfs does not have.
	d := driverWith(t, func(o *Options) { o.Guest = func() (string, error) { return "/bin/true", nil } })
	fails(t, d, sandbox.Unavailable, "its console says")
}

func TestBrokenDisk(t *testing.T) {
	state := t.TempDir()
	d := driverWith(t, func(o *Options) { o.StateDir = state })
	e, err := d.open()
	if err != nil {
		t.Fatal(err)
	}
	root, err := e.images.Resolve(t.Context(), os.Getenv(imageVariable), nil)
	if err != nil {
		t.Fatal(err)
	}
	disks, err := disk.Open(filepath.Join(state, "disks"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := disks.Ensure(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	if err := os.WriteFile(file.Name(), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, d, sandbox.Unavailable, "mount erofs")
}

func TestCancelledCreate(t *testing.T) {
	d := driverWith(t, func(*Options) {})
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	began := time.Now()
	if i, err := d.Create(ctx, testSpec()); err == nil {
		t.Skip("this host boots a machine in less", i.Destroy(context.Background()))
	} else if sandbox.ClassOf(err) != sandbox.Timeout {
		t.Errorf("class %v: %v", sandbox.ClassOf(err), err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("giving up took %v", took)
	}
}

func TestRefusals(t *testing.T) {
	d := driverWith(t, func(o *Options) { o.Emulate = true })
	for field, c := range map[string]struct {
		change func(*sandbox.Spec)
		class  sandbox.Class
	}{
		"limits.memory":      {func(s *sandbox.Spec) { s.Limits.MemoryBytes = leastMemory - 1 }, sandbox.Unsupported},
		"limits":             {func(s *sandbox.Spec) { s.Limits.MemoryBytes = math.MaxInt64 }, sandbox.Unsupported},
		"limits.disk_backed": {func(s *sandbox.Spec) { s.Limits.DiskBacked = true }, sandbox.Unsupported},
		"network.mode":       {func(s *sandbox.Spec) { s.Network.Mode = sandbox.HostNetwork }, sandbox.Unsupported},
		"mounts":             {func(s *sandbox.Spec) { s.Mounts = []sandbox.Mount{{Source: "/a", Target: "/b"}} }, sandbox.Unsupported},
		"isolation":          {func(s *sandbox.Spec) { s.Isolation = sandbox.HardwareBoundary }, sandbox.Unsupported},
	} {
		spec := testSpec()
		c.change(&spec)
		_, err := d.Create(t.Context(), spec)
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Class != c.class || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
