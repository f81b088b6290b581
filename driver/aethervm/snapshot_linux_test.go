package aethervm

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"aether/driver/vmm"
	"aether/sandbox"
)

// TestSnapshotsShare: a snapshot has what its machine began with by a name of the template's file,
// also one of a fork, of a machine that was restored and of a fork of that; and all of the memory itself once that
// file has no name any more. Whatever of it is damaged, it is refused.
func TestSnapshotsShare(t *testing.T) {
	var state string
	d := newDriverWith(t, func(o *vmm.Options) { state = o.StateDir })
	snapshot := func(t *testing.T, i sandbox.Instance) string {
		t.Helper()
		dir, err := os.MkdirTemp(state, "snapshot-") // beside the templates
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		})
		if err := i.(sandbox.Snapshotter).Snapshot(t.Context(), dir, sandbox.Checkpoint); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	i := create(t, d, "source")
	run(t, i, "echo first > /tmp/notes")
	child := fork(t, i, "child")[0]
	run(t, child, "echo second >> /tmp/notes")
	dir := snapshot(t, child)
	shared := blocks(t, dir, "base")
	own := blocks(t, dir, "state")
	t.Logf("a snapshot has %d bytes of its own, and %d of its template", own, shared)
	if shared == 0 || own == 0 || own > shared {
		t.Error("it has little of its template")
	}
	restored := restore(t, d, dir)
	run(t, restored, "echo third >> /tmp/notes")
	again := snapshot(t, restored)
	const all = "first\nsecond\nthird"
	later := snapshot(t, fork(t, restore(t, d, again), "later")[0])
	for _, dir := range []string{again, later} {
		if got := blocks(t, dir, "base"); got != shared {
			t.Errorf("a snapshot has %d bytes of the template", got)
		}
		if got := run(t, restore(t, d, dir), "cat /tmp/notes"); got != all {
			t.Errorf("it has %q", got)
		}
	}
	if err := os.RemoveAll(templateOf(t, state, dir)); err != nil {
		t.Fatal(err)
	}
	whole := snapshot(t, child)
	if base, all := blocks(t, whole, "base"), blocks(t, whole, "state"); base != 0 || all < 2*own {
		t.Errorf("without its template a snapshot has %d bytes of it, and %d of its own", base, all)
	}
	if got := run(t, restore(t, d, whole), "cat /tmp/notes"); got != "first\nsecond" {
		t.Errorf("it has %q", got)
	}
	other := newDriver(t) // which has no template at hand
	if got := run(t, fork(t, restore(t, other, again), "elsewhere")[0], "cat /tmp/notes"); got != all {
		t.Errorf("with another driver it has %q", got)
	}
	for _, c := range []struct{ dir, name, want string }{
		{whole, "state", "the memory of the state is damaged"},
		{again, "state", "the memory of the state is damaged"},
		{dir, "base", "is damaged, or another's"},
	} {
		spoil(t, filepath.Join(c.dir, c.name))
		if _, err := other.Restore(t.Context(), c.dir, sandbox.Checkpoint, sandbox.Spec{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("with %s damaged: %v", c.name, err)
		}
	}
}

// templateOf is the directory of the template that a snapshot has the memory of.
func templateOf(t *testing.T, state, dir string) string {
	t.Helper()
	want, err := os.Stat(filepath.Join(dir, "base"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(state, "templates", "*", "memory"))
	for _, name := range files {
		if got, err := os.Stat(name); err == nil && os.SameFile(got, want) {
			return filepath.Dir(name)
		}
	}
	t.Fatalf("it is none of %q, %v", files, err)
	return ""
}

func restore(t *testing.T, d *vmm.Driver, dir string) sandbox.Instance {
	t.Helper()
	i, err := d.Restore(t.Context(), dir, sandbox.Checkpoint, sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// blocks is how much room a file takes; none if it is not there.
func blocks(t *testing.T, dir, name string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, name))
	if os.IsNotExist(err) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}

// spoil changes a byte of memory.
func spoil(t *testing.T, name string) {
	t.Helper()
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const at = 0x2000000 // where kernels are
	var b [1]byte
	if _, err := file.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := file.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}
