package qemu

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/guest/pid1"
	"aether/internal/host/launch"
	"aether/sandbox"
)

// templatesIn lists the templates of a driver, and what is on its way to be one.
func templatesIn(t *testing.T, o Options) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(o.templateDir(), "*"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, name := range list {
		if name != o.templateWork() {
			found = append(found, name)
		}
	}
	work, err := filepath.Glob(filepath.Join(o.templateWork(), "*"))
	if err != nil {
		t.Fatal(err)
	}
	return append(found, work...)
}

// Machines that start at the same time, from a template that none of them had,
// have nothing in common but it.
func TestMachinesOfATemplate(t *testing.T) {
	state := freshState(t)
	d := driverWith(t, func(o *Options) { o.StateDir = state })
	const count = 3
	var said [count]string
	var work sync.WaitGroup
	for n := range count {
		work.Go(func() { said[n] = one(t, d, fmt.Sprint("machine-", n)) })
	}
	work.Wait()
	for n, text := range said {
		for _, other := range said[:n] {
			if text == other {
				t.Errorf("two machines draw the same random numbers: %q", text)
			}
		}
	}
	if list := templatesIn(t, d.opts); len(list) != 1 {
		t.Errorf("templates: %q", list)
	}
}

// one makes a machine and gives the first random numbers that it draws.
func one(t *testing.T, d *Driver, id string) string {
	spec := testSpec()
	spec.ID = id
	i, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer i.Destroy(context.Background())
	random := run(t, i, "cat /proc/sys/kernel/random/uuid /proc/sys/kernel/random/boot_id")
	if got := run(t, i, "hostname; ls /tmp /root; echo own > /tmp/own; echo own > /root/own"); got != id+"\n/root:\n\n/tmp:" {
		t.Errorf("%s is not as it should be: %q", id, got)
	}
	wantTime(t, i)
	// Whoever reaches a machine cannot make it another's.
	if err := pid1.Configure(t.Context(), i.Dial, pid1.Configuration{Secret: make([]byte, 64), Now: time.Now()}); err == nil {
		t.Errorf("%s was configured twice", id)
	}
	return random
}

// A QEMU that a guest has taken over has the descriptor of what others start from.
func TestTemplateCannotBeChanged(t *testing.T) {
	d := driverWith(t, func(*Options) {})
	i, err := d.Create(t.Context(), testSpec())
	if err != nil {
		t.Fatal(err)
	}
	defer i.Destroy(context.Background())
	pid := i.(*instance).process.cmd.Process.Pid
	tried := 0
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if target, err := os.Readlink(name); err != nil || !strings.HasPrefix(target, "/memfd:"+memoryFile) {
			continue
		}
		file, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt([]byte("x"), 0); err == nil || file.Truncate(0) == nil {
			t.Error("a machine can change the template that it came from")
		}
		file.Close()
		tried++
	}
	if tried == 0 {
		t.Errorf("no template is open in %v", files)
	}
}

func TestColdMachine(t *testing.T) {
	state := freshState(t)
	d := driverWith(t, func(o *Options) { o.Cold, o.StateDir = true, state })
	if one(t, d, "cold") == "" {
		t.Error("it draws no random numbers")
	}
	if list := templatesIn(t, d.opts); len(list) != 0 {
		t.Errorf("templates: %q", list)
	}
}

// A template that is broken fails one machine, with the reason, and is gone.
func TestBrokenTemplate(t *testing.T) {
	state := freshState(t)
	one(t, driverWith(t, func(o *Options) { o.StateDir = state }), "first")
	d := driverWith(t, func(o *Options) { o.StateDir = state })
	list := templatesIn(t, d.opts)
	if len(list) != 1 {
		t.Fatalf("templates: %q", list)
	}
	if err := os.WriteFile(filepath.Join(list[0], stateFile), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, d, sandbox.Unavailable, "QEMU says")
	one(t, d, "second")
}

// fakeTemplate is one as far as keeping it goes.
func fakeTemplate(t *testing.T, dir string) *template {
	t.Helper()
	memory, err := launch.SealedFile("memory", []byte("memory"))
	if err != nil {
		t.Fatal(err)
	}
	state, err := launch.SealedFile("state", []byte("state"))
	if err != nil {
		t.Fatal(err)
	}
	return &template{memory, state, dir}
}

func TestFewTemplatesAreAtHand(t *testing.T) {
	var ts templates
	for n := range mostOpen + 2 {
		kept, err := ts.keep(fmt.Sprint(n), fakeTemplate(t, fmt.Sprint("/nowhere/", n)))
		if err != nil {
			t.Fatal(err)
		}
		kept.close()
		first, err := ts.again("0") // used each time, so it stays
		if err != nil || first == nil {
			t.Fatalf("after %d: %v, %v", n, first, err)
		}
		b := make([]byte, 5)
		if _, err := first.state.Read(b); err != nil || string(b) != "state" {
			t.Errorf("the state reads %q, %v: its readers share a place", b, err)
		}
		first.close()
	}
	if len(ts.open) != mostOpen || len(ts.recent) != mostOpen || ts.open["1"] != nil {
		t.Errorf("%d are open: %v", len(ts.open), ts.recent)
	}
	if err := ts.forget(ts.open["0"]); err != nil {
		t.Error(err)
	}
	if again, err := ts.again("0"); again != nil || err != nil {
		t.Errorf("a forgotten one: %v, %v", again, err)
	}
	if err := ts.close(); err != nil || len(ts.open) > 0 {
		t.Errorf("%d are left, %v", len(ts.open), err)
	}
	if _, err := ts.keep("late", fakeTemplate(t, "/nowhere/late")); sandbox.ClassOf(err) != sandbox.Conflict {
		t.Errorf("kept by a closed driver: %v", err)
	}
}

func TestOldTemplatesAreRemoved(t *testing.T) {
	e := &engine{opts: Options{StateDir: t.TempDir()}}
	keep := func(name, boot string, age time.Duration) {
		dir := filepath.Join(e.opts.templateDir(), name)
		when := time.Now().Add(-age)
		for _, err := range []error{os.MkdirAll(dir, 0o700),
			os.WriteFile(filepath.Join(dir, manifestFile), []byte(`{"host_boot":"`+boot+`"}`), 0o600), os.Chtimes(dir, when, when)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.MkdirAll(e.opts.templateWork(), 0o700); err != nil {
		t.Fatal(err)
	}
	keep("other boot", "old", 0)
	for n := range mostKept + 2 {
		keep(fmt.Sprint("n", n), "now", time.Duration(n)*time.Hour)
	}
	if err := e.prune("now"); err != nil {
		t.Fatal(err)
	}
	left := templatesIn(t, e.opts)
	if len(left) != mostKept {
		t.Errorf("%d are kept: %q", len(left), left)
	}
	for _, name := range []string{"other boot", fmt.Sprint("n", mostKept)} {
		if _, err := os.Stat(filepath.Join(e.opts.templateDir(), name)); !os.IsNotExist(err) {
			t.Errorf("%s is kept (%v)", name, err)
		}
	}
	if _, err := os.Stat(e.opts.templateWork()); err != nil {
		t.Error(err)
	}
}

// Every reason for a machine to be unlike a template gives it another.
func TestMoldsDiffer(t *testing.T) {
	names := map[string]mold{}
	for _, m := range []mold{{}, {HostBoot: "x"}, {Program: "x"}, {Kernel: "x"}, {Init: "x"}, {Accel: "x"}, {CPU: "x"},
		{Hardware: hardwareOf{MemoryMiB: 1}}, {Hardware: hardwareOf{CPUs: 1}}} {
		name, err := m.name()
		if other, taken := names[name]; taken || err != nil {
			t.Errorf("%+v and %+v have one template (%v)", m, other, err)
		}
		names[name] = m
	}
}

func TestModulesThatWait(t *testing.T) {
	used, held := withoutDisk([]string{"/modules/00-virtio.ko", "/modules/01-virtio_blk.ko"})
	if len(used) != 1 || len(held) != 1 || held[0] != "/modules/01-virtio_blk.ko" {
		t.Errorf("%q, %q", used, held)
	}
	if _, held := withoutDisk([]string{"/modules/00-virtio.ko"}); held != nil {
		t.Errorf("a kernel with the disk's driver built in: %q", held)
	}
}
