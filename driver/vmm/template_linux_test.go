package vmm

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"aether/internal/host/launch"
	"aether/sandbox"
)

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
	return &template{memory: memory, state: state, dir: dir}
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
		dir := filepath.Join(templatesDir(e.opts), name)
		when := time.Now().Add(-age)
		for _, err := range []error{os.MkdirAll(dir, 0o700),
			os.WriteFile(filepath.Join(dir, manifestFile), []byte(`{"host_boot":"`+boot+`"}`), 0o600), os.Chtimes(dir, when, when)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.MkdirAll(templateWork(e.opts), 0o700); err != nil {
		t.Fatal(err)
	}
	keep("other boot", "old", 0)
	for n := range maxTemplates + 2 {
		keep(fmt.Sprint("n", n), "now", time.Duration(n)*time.Hour)
	}
	if err := e.prune("now"); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(templatesDir(e.opts), "*"))
	if err != nil || len(left) != maxTemplates+1 { // and the place where they are made
		t.Errorf("%d are kept: %q", len(left), left)
	}
	for _, name := range []string{"other boot", fmt.Sprint("n", maxTemplates)} {
		if _, err := os.Stat(filepath.Join(templatesDir(e.opts), name)); !os.IsNotExist(err) {
			t.Errorf("%s is kept (%v)", name, err)
		}
	}
	if _, err := os.Stat(templateWork(e.opts)); err != nil {
		t.Error(err)
	}
}

// Every reason for a machine to be unlike a template gives it another.
func TestMoldsDiffer(t *testing.T) {
	names := map[string]mold{}
	for _, m := range []mold{{}, {HostBoot: "x"}, {Program: "x"}, {Kernel: "x"}, {Init: "x"}, {Arguments: []string{"x"}},
		{Hardware: Hardware{MemoryMiB: 1}}, {Hardware: Hardware{CPUs: 1}}, {Hardware: Hardware{Emulated: true}}} {
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
