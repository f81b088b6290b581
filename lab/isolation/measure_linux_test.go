package isolation

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"aether/driver/cell"
	"aether/driver/command"
	"aether/driver/gvisor"
	"aether/driver/qemu"
	"aether/driver/vmm"
	"aether/driver/vmm/vmmtest"
	"aether/lab"
	"aether/sandbox"
)

// measured measures one system, or skips what this host cannot run.
func measured(t *testing.T, driver sandbox.Driver, image string) Result {
	t.Helper()
	if c, ok := driver.(sandbox.Closer); ok {
		t.Cleanup(func() {
			if err := c.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	// A host that is busy may answer a probe too late: what is installed is tried.
	if report := driver.Probe(t.Context()); !report.Usable && report.Version == "" {
		t.Skipf("%s (%s)", report.Reason, report.Remedy)
	}
	r, err := Measure(t.Context(), driver, Options{Image: image, Program: probeProgram, Progress: lab.NewProgress(t.Output())})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r.Text())
	if len(r.Findings) != len(table) || r.Score <= 0 || r.Score > 1 || r.Calls.Tried < 300 || r.Calls.Host == nil {
		t.Errorf("%+v", r)
	}
	if text, err := json.Marshal(r); err != nil || len(text) == 0 {
		t.Error(err)
	}
	return r
}

// TestOrder: the probes tell apart, on this host, a privileged container, a default one, a
// cell, gVisor and a machine, in that order.
func TestOrder(t *testing.T) {
	var last Result
	for _, system := range []struct {
		name  string
		make  func(t *testing.T) (sandbox.Driver, string)
		class Class
	}{
		{"privileged container", func(t *testing.T) (sandbox.Driver, string) {
			return &container{name: "privileged container", change: privileged(t)}, ""
		}, ClassProcess},
		{"default container", func(*testing.T) (sandbox.Driver, string) { return &container{name: "default container"}, "" }, ClassProcess},
		{"cell", func(t *testing.T) (sandbox.Driver, string) {
			return cell.New(cell.Options{Images: images, RunDir: t.TempDir()}), ""
		}, ClassProcess},
		{"gvisor", func(t *testing.T) (sandbox.Driver, string) {
			dir := t.TempDir()
			return gvisor.New(gvisor.Options{Images: images, RunDir: dir, StateDir: filepath.Join(dir, "state")}), ""
		}, ClassUserKernel},
		{"machine", func(t *testing.T) (sandbox.Driver, string) {
			vmmtest.Suite{New: newMachines}.Need(t)
			return newMachines(vmmtest.Options(t.TempDir())), vmmtest.Image()
		}, ClassEmulated},
	} {
		t.Run(system.name, func(t *testing.T) {
			driver, image := system.make(t)
			r := measured(t, driver, image)
			if r.Score <= last.Score {
				t.Errorf("%s has %.3f, and %s has %.3f", r.Driver, r.Score, last.Driver, last.Score)
			}
			if r.Class != system.class {
				t.Errorf("%s is of the class %s", r.Driver, r.Class)
			}
			last = r
		})
	}
}

// newMachines emulates, also where there is KVM: so is the order the same on every host.
func newMachines(o vmm.Options) *vmm.Driver {
	o.Cold = true
	return qemu.New(qemu.Options{Options: o, Emulate: true})
}

// TestWeakened: what is taken from a sandbox is found, by name.
func TestWeakened(t *testing.T) {
	// Some of these show the host's files, and /tmp is where the program is put.
	dir, err := os.MkdirTemp("/var/tmp", "aether-isolation-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	for _, c := range []struct {
		name   string
		driver sandbox.Driver
		caught []string
	}{
		{"container with sys_admin", &container{name: "container with sys_admin", change: func(s *specs.Spec) {
			s.Process.Capabilities = command.OCICapabilities(append(slices.Clone(s.Process.Capabilities.Bounding), "CAP_SYS_ADMIN"))
		}}, []string{"cap-sys-admin", "mounting"}},
		{"bwrap over the host", &container{name: "bwrap over the host", bwrap: []string{"--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--tmpfs", "/tmp", "--die-with-parent"}},
			[]string{"see-file", "change-file", "see-process", "see-mounts", "see-shadow", "see-hostname", "net-abstract", "net-unix", "net-loopback", "ns-pid", "ns-net", "ns-user", "seccomp", "root-outside", "dev-disks", "write-core-pattern"}},
		{"cell with a hole", holed{cell.New(cell.Options{Images: images, RunDir: t.TempDir()}), dir},
			[]string{"see-file", "change-file", "net-unix", "net-loopback", "net-devices", "ns-net"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := measured(t, c.driver, "")
			for _, name := range c.caught {
				if !slices.Contains(r.With(Unsafe), name) {
					t.Errorf("%s is not caught: %q", name, r.With(Unsafe))
				}
			}
		})
	}
}

// holed gives every cell the host's network and a directory.
type holed struct {
	*cell.Driver
	dir string
}

func (h holed) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Instance, error) {
	spec.Network.Mode = sandbox.HostNetwork
	spec.Mounts = []sandbox.Mount{{Source: h.dir, Target: h.dir, Writable: true}}
	return h.Driver.Create(ctx, spec)
}
