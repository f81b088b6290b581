package aethervm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/driver/vmm"
	"aether/driver/vmm/vmmtest"
	"aether/guest"
	"aether/image/kernel"
	"aether/internal/vm/vmtest"
	"aether/sandbox"
)

// TestHostileGuests: a guest whose kernel does what it must not to its devices and to its
// processor ends its own machine, of which the driver says why, or is ended when it should have
// answered. Its neighbour answers all the while, and nothing is left.
func TestHostileGuests(t *testing.T) {
	d := newDriver(t)
	neighbour := create(t, d, "neighbour")
	battery, _ := vmtest.Battery()
	written := func(write func(*vmtest.Code)) *vmtest.Code {
		code := &vmtest.Code{}
		write(code)
		return code
	}
	const never = 8 * time.Second // the time of the lab, in which nothing takes long
	for name, c := range map[string]struct {
		code *vmtest.Code
		time time.Duration // that it is given
		want string
	}{
		"battery":       {battery, 5 * time.Minute, "the guest switched itself off"},
		"triple fault":  {written((*vmtest.Code).TripleFault), time.Minute, "the guest reset itself"},
		"code nowhere":  {written(func(c *vmtest.Code) { c.Jump(0xb0000000) }), time.Minute, "a processor stopped"},
		"spin":          {written((*vmtest.Code).Spin), never, "the guest service did not answer"},
		"halt":          {written((*vmtest.Code).Halt), never, "the guest service did not answer"},
		"console flood": {vmtest.ConsoleFlood(), never, "the guest service did not answer"},
		"vsock flood":   {vmtest.VsockFlood(), never, "the guest service did not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), c.time)
			defer cancel()
			_, err := newHostile(t, c.code).Create(ctx, sandbox.Spec{ID: "hostile", Image: vmmtest.Image(), Limits: sandbox.Limits{MemoryBytes: 160 << 20}})
			if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 8<<10 || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("%.8000q\nwant %q", err, c.want)
			}
			if late := errors.Is(err, context.DeadlineExceeded); late != (c.time == never) {
				t.Errorf("given %v: %v", c.time, err)
			}
			if name == "battery" && !strings.Contains(err.Error(), "over") {
				t.Errorf("it did not come to its end: %v", err)
			}
			if got := run(t, neighbour, "echo here"); got != "here" {
				t.Errorf("the neighbour says %q", got)
			}
		})
	}
	// A guest that takes connections is taken for one whose service answers.
	t.Run("unread", func(t *testing.T) {
		i, err := newHostile(t, vmtest.Unread()).Create(t.Context(), sandbox.Spec{ID: "deaf", Image: vmmtest.Image(), Limits: sandbox.Limits{MemoryBytes: 160 << 20}})
		if err != nil {
			t.Fatal(err)
		}
		client := guest.NewClient(i.Dial, guest.ClientOptions{})
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), never)
		defer cancel()
		if _, err := client.Start(ctx, guest.Cmd{Path: "/bin/true"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a guest that says nothing has started a command: %v", err)
		}
		if err := i.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
		if got := run(t, neighbour, "echo here"); got != "here" {
			t.Errorf("the neighbour says %q", got)
		}
	})
	t.Run("panic", func(t *testing.T) {
		i := create(t, d, "panics")
		client := start(t, i, "echo c > /proc/sysrq-trigger")
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		exit, err := i.Wait(ctx)
		if err != nil || exit.Cause != sandbox.Crashed || !strings.Contains(exit.Detail, "the guest reset itself") {
			t.Errorf("%+v, %v", exit, err)
		}
		if err := i.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
		if got := run(t, neighbour, "echo here"); got != "here" {
			t.Errorf("the neighbour says %q", got)
		}
	})
}

// newHostile is a driver whose machines boot such a kernel, each by itself. It wants nothing to be left.
func newHostile(t *testing.T, code *vmtest.Code) *vmm.Driver {
	t.Helper()
	real, err := kernel.Find(kernel.Places{Named: os.Getenv("AETHER_KERNEL")})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	image := filepath.Join(dir, "boot", "vmlinux-"+real.Release)
	for _, err := range []error{os.Mkdir(filepath.Dir(image), 0o755), os.WriteFile(image, code.Kernel(), 0o644),
		os.Symlink(filepath.Dir(filepath.Dir(real.Modules)), filepath.Join(dir, "lib"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return newDriverWith(t, func(o *vmm.Options) { o.Kernel.Named, o.Cold = image, true })
}
