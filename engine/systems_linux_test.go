package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"aether/driver/gvisor"
	"aether/driver/qemu"
	"aether/driver/vmm"
	"aether/driver/vmm/vmmtest"
	"aether/engine"
	"aether/engine/access"
	"aether/image"
	"aether/sandbox"
)

// systems makes what the sandboxes of other systems are made of, once for all tests: the
// guest service, and for machines an image, disks and an unpacked kernel.
var systems = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "aether-systems-"); err != nil {
		return "", err
	}
	systemsDir = dir
	return dir, vmmtest.Prepare(dir)
})

// systemsDir is removed after the last test; empty if no test needed it.
var systemsDir string

func needSystems(t *testing.T) (dir string) {
	t.Helper()
	dir, err := systems()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// systemEngine is an engine of one driver whose sandboxes are no cells.
func systemEngine(t *testing.T, name string, driver func(dir string) sandbox.Driver) *engine.Engine {
	t.Helper()
	return systemEngineIn(t, openDir(t), name, driver)
}

func systemEngineIn(t *testing.T, dir, name string, driver func(dir string) sandbox.Driver) *engine.Engine {
	t.Helper()
	rights := unbounded
	rights.Images = []string{vmmtest.Image()}
	e, err := engine.Open(engine.Options{State: filepath.Join(dir, "state"), Access: access.Config{Default: access.Tenant{Policy: rights}},
		Drivers: []sandbox.Maker{{Name: name, New: func() sandbox.Driver { return driver(filepath.Join(dir, "run")) }}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return e
}

// gvisorEngine skips where there is no runsc.
func gvisorEngine(t *testing.T) *engine.Engine {
	t.Helper()
	dir := needSystems(t)
	if built, err := filepath.Abs("../bin/runsc"); err == nil && os.Getenv(gvisor.PathVariable) == "" {
		if _, err := os.Stat(built); err == nil {
			t.Setenv(gvisor.PathVariable, built)
		}
	}
	images := sync.OnceValues(func() (*image.Store, error) { return image.Open(filepath.Join(dir, "gvisor-images")) })
	make := func(run string) sandbox.Driver {
		return gvisor.New(gvisor.Options{RunDir: run, StateDir: filepath.Join(dir, "gvisor"), Images: images})
	}
	if report := make(filepath.Join(dir, "probe")).Probe(t.Context()); !report.Usable {
		t.Skipf("no gVisor here: %s (%s)", report.Reason, report.Remedy)
	}
	return systemEngine(t, gvisor.Name, make)
}

// machineEngine skips where there is no QEMU, or no kernel for machines.
func machineEngine(t *testing.T) *engine.Engine {
	t.Helper()
	needSystems(t)
	suite := vmmtest.Suite{New: func(o vmm.Options) *vmm.Driver { return qemu.New(qemu.Options{Options: o}) }}
	suite.Need(t)
	return systemEngine(t, qemu.Name, func(run string) sandbox.Driver { return suite.New(vmmtest.Options(run)) })
}

func TestFilesOfGVisor(t *testing.T) { keepsFiles(t, gvisorEngine(t), "") }

// TestLayersOfGVisor: another driver that keeps files and knows its images has layers too.
func TestLayersOfGVisor(t *testing.T) {
	e := gvisorEngine(t)
	first, ran := drawn(t, e, alice, drawing("one", "a", "b"))
	wantRan(t, "the first", ran, "rr")
	same, ran := drawn(t, e, alice, drawing("one", "a", "b"))
	wantRan(t, "the next version", ran, "cc")
	if first["a"] == "" || same["a"] != first["a"] || same["b"] != first["b"] {
		t.Errorf("of %v became %v", first, same)
	}
}

func TestFilesOfMachines(t *testing.T) { e := machineEngine(t); keepsFiles(t, e, vmmtest.Image()) }

// TestConsoleOfMachines: what is written to a machine's console is told, and a sandbox
// that has none is refused.
func TestConsoleOfMachines(t *testing.T) {
	e := machineEngine(t)
	machine := create(t, e, alice, engine.CreateRequest{Spec: sandbox.Spec{Image: vmmtest.Image(), Command: sandbox.CommandDefaults{User: "0"}}})
	sh(t, e, alice, machine.ID, `printf 'hello\033[2J\n' > /dev/console`)
	said := []byte(nil)
	if !eventually(func() bool {
		var err error
		if said, _, err = e.Console(t.Context(), alice, machine.ID); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(said), "hello\x1b[2J")
	}) {
		t.Errorf("the console has %q", said)
	}
	if _, _, err := e.Console(t.Context(), engine.Caller{Tenant: "bob"}, machine.ID); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("another's console: %v", err)
	}
	if err := e.Destroy(t.Context(), alice, machine.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.Console(t.Context(), alice, machine.ID); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("the console of what has ended: %v", err)
	}
}

// keepsFiles takes the files of a sandbox through a snapshot, a pause with files alone, and
// a pause with memory of which files alone are wanted.
func keepsFiles(t *testing.T, e *engine.Engine, image string) {
	source := create(t, e, alice, engine.CreateRequest{Spec: sandbox.Spec{Image: image}})
	sh(t, e, alice, source.ID, "echo before > /tmp/file")
	s := snapshot(t, e, source.ID, engine.SnapshotRequest{Fidelity: sandbox.Filesystem})
	if s.Fidelity != sandbox.Filesystem || s.Size == 0 {
		t.Errorf("%+v", s)
	}
	sh(t, e, alice, source.ID, "echo after > /tmp/file")
	again := create(t, e, alice, engine.CreateRequest{Snapshot: s.ID})
	if got := sh(t, e, alice, again.ID, "cat /tmp/file"); got != "before" || again.Driver != source.Driver {
		t.Errorf("%s has %q", again.Driver, got)
	}
	if _, err := e.Create(t.Context(), alice, engine.CreateRequest{Snapshot: s.ID, Fidelity: sandbox.Checkpoint}); sandbox.ClassOf(err) != sandbox.Conflict {
		t.Errorf("memory that was not kept: %v", err)
	}
	if err := e.Destroy(t.Context(), alice, again.ID); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ keep, give, has sandbox.Fidelity }{
		{sandbox.Filesystem, "", sandbox.Filesystem}, {sandbox.Checkpoint, sandbox.Filesystem, sandbox.Checkpoint},
	} {
		paused, err := e.Pause(t.Context(), alice, source.ID, c.keep)
		if err != nil || paused.State != engine.Paused || paused.Fidelity != c.has {
			t.Fatalf("%+v, %v", paused, err)
		}
		if resumed, err := e.Resume(t.Context(), alice, source.ID, c.give); err != nil || resumed.State != engine.Running {
			t.Fatalf("%+v, %v", resumed, err)
		}
		if got := sh(t, e, alice, source.ID, "cat /tmp/file"); got != "after" {
			t.Errorf("with %s kept and %q given: %q", c.keep, c.give, got)
		}
	}
}
