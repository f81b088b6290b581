package cell_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"aether/driver/cell"
	"aether/sandbox"
)

// collector is a process that holds 32 MiB which are not alike, and says a sum of them.
const collector = `
import sys, zlib, os
data = bytearray(os.urandom(32 << 20))
print("primed", flush=True)
for line in sys.stdin:
    if line.strip() != "?":
        data[int(line):int(line) + 5] = b"other"
    print(zlib.crc32(data), flush=True)
`

// TestSnapshotsOfForksShareMemory: of the memory of forks only what differs is stored, by
// another program too, and each goes on with its own.
func TestSnapshotsOfForksShareMemory(t *testing.T) {
	needRoot(t, "forks with much memory")
	dir := t.TempDir()
	options := optionsIn(filepath.Join(dir, "run"), 0)
	options.SnapshotDir = filepath.Join(dir, "snapshots")
	first := cell.New(options)
	source := create(t, first, sandbox.Spec{})
	python := converse(t, source, 0, "python3", "-c", collector)
	python.hear(t, "primed")
	const count = 4
	children := forkInto(t, source, make([]sandbox.Spec, count)...)
	var kept, sums [count]string
	for i, child := range children {
		c := converse(t, child, python.pid)
		c.say(t, []string{"5", "100000", "2000000", "30000000"}[i])
		line, err := c.lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = line
		kept[i] = keep(t, child, sandbox.Checkpoint)
	}
	if size := sizeOf(t, options.SnapshotDir); size > 2*32<<20 {
		t.Errorf("four snapshots of 32 MiB take %d MiB", size>>20)
	}
	for _, instance := range append(children, source) {
		destroy(t, instance)
	}
	if err := first.Close(context.Background()); err != nil {
		t.Fatal(err)
	}

	second := cell.New(options)
	t.Cleanup(func() { second.Close(context.Background()) })
	for i := range kept {
		child := give(t, second, kept[i], sandbox.Checkpoint, sandbox.Spec{})
		again := keep(t, child, sandbox.Checkpoint)
		destroy(t, child)
		if err := os.RemoveAll(kept[i]); err != nil {
			t.Fatal(err)
		}
		if _, err := second.Reap(t.Context()); err != nil {
			t.Fatal(err)
		}
		c := converse(t, give(t, second, again, sandbox.Checkpoint, sandbox.Spec{}), python.pid)
		c.say(t, "?")
		c.hear(t, sums[i][:len(sums[i])-1])
	}
}

// sizeOf is how much the files of a directory take, each counted once.
func sizeOf(t *testing.T, dir string) (sum int64) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size()
	}
	return sum
}
