package aethervm

import (
	"fmt"
	"strings"
	"testing"

	"aether/driver/vmm/vmmtest"
	"aether/sandbox"
)

// seen is a file's sum as it is on the disk, and not in memory.
const seen = "sync; echo 3 > /proc/sys/vm/drop_caches; sha256sum < /big"

// TestDiskBacked: what a machine writes is on its disk, of the size that was asked for. Source,
// forks, their forks and what is restored have what was there, and each goes on alone.
func TestDiskBacked(t *testing.T) {
	d := newDriver(t)
	const size, memory = 32 << 20, 160 << 20
	i, err := d.Create(t.Context(), sandbox.Spec{ID: "source", Image: vmmtest.Image(), Command: sandbox.CommandDefaults{User: "0"},
		Limits: sandbox.Limits{MemoryBytes: memory, DiskBytes: size, DiskBacked: true}})
	if err != nil {
		t.Fatal(err)
	}
	run(t, i, "yes aether | head -c 4000000 > /big; cp /big /tmp/other; cmp /big /tmp/other")
	if got := run(t, i, "dd if=/dev/zero of=/full bs=1M count=40 2>&1 || rm /full"); !strings.Contains(got, "No space left") {
		t.Errorf("a disk of %d bytes takes 40 MiB more: %s", size, got)
	}
	sum := run(t, i, seen)
	alter := func(who sandbox.Instance, name string) string {
		t.Helper()
		return run(t, who, fmt.Sprintf("echo %s | dd of=/big bs=1 seek=12345 conv=notrunc 2> /dev/null; %s", name, seen))
	}
	children := fork(t, i, "one", "two")
	others := map[string]string{alter(i, "source"): "source"}
	for _, child := range children {
		if got := run(t, child, seen); got != sum {
			t.Errorf("%s has %s of %s", child.ID(), got, sum)
		}
		own := alter(child, child.ID())
		if other, same := others[own]; same || own == sum {
			t.Errorf("%s has what %s wrote", child.ID(), other)
		}
		others[own] = child.ID()
	}
	last := run(t, children[0], seen)
	for n := range 2 {
		next := fork(t, children[0], fmt.Sprintf("g%d", n))[0]
		if err := children[0].Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := run(t, next, seen); got != last {
			t.Errorf("generation %d has %s of %s", n, got, last)
		}
		children[0], last = next, alter(next, next.ID())
	}
	dir := t.TempDir()
	if err := children[0].(sandbox.Snapshotter).Snapshot(t.Context(), dir, sandbox.Checkpoint); err != nil {
		t.Fatal(err)
	}
	alter(children[0], "later")
	restored, err := d.Restore(t.Context(), dir, sandbox.Checkpoint, sandbox.Spec{ID: "restored"})
	if err != nil {
		t.Fatal(err)
	}
	if got := run(t, restored, seen); got != last {
		t.Errorf("what was restored has %s of %s", got, last)
	}
	child := fork(t, restored, "last")[0]
	alter(restored, "restored")
	if got := run(t, child, seen+"; df -k / | tail -n 1 | awk '{print ($2 > 24576 && $2 < 32768)}'"); got != last+"\n1" {
		t.Errorf("a fork of it has %s of %s", got, last)
	}
}
