package cell_test

import (
	"os"
	"path/filepath"
	"testing"

	"aether/sandbox"
)

// keeper is a python that has files of a mount open, in its memory and as its directory,
// and writes each line that it hears through all of them.
const mountKeeper = `
import mmap, os, sys
os.chdir("/mnt/deep")
log = open("log", "a+")
board = open("/mnt/board", "r+b")
memory = mmap.mmap(board.fileno(), 4096)
print("primed", flush=True)
for line in sys.stdin:
    log.write(line)
    log.flush()
    memory[0:1] = line[0:1].encode()
    with open("here", "w") as f:
        f.write(line)
    print(len(open("log").readlines()), memory[1:2].decode(), os.getcwd(), flush=True)
`

// volume is a directory for mountKeeper.
func volume(t *testing.T) (dir string, mount sandbox.Mount) {
	t.Helper()
	dir = shared(t)
	deep, board := filepath.Join(dir, "deep"), filepath.Join(dir, "board")
	if err := os.Mkdir(deep, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(board, make([]byte, 4096), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{deep, board} {
		if err := os.Chmod(name, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return dir, sandbox.Mount{Source: dir, Target: "/mnt", Writable: true}
}

// TestCheckpointWithMounts: what a cell was shown of the host is there again when it is
// given again, and processes go on with the files that they had of it.
func TestCheckpointWithMounts(t *testing.T) {
	driver := processKeeper(t, t.TempDir())
	dir, mount := volume(t)
	source, err := driver.Create(t.Context(), sandbox.Spec{Mounts: []sandbox.Mount{mount}})
	if sandbox.ClassOf(err) == sandbox.Unavailable {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { destroy(t, source) })
	python := converse(t, source, 0, "python3", "-c", mountKeeper)
	python.hear(t, "primed")
	python.say(t, "a")
	python.hear(t, "1 \x00 /mnt/deep")
	kept := checkpointOf(t, source)
	destroy(t, source)
	if err := os.WriteFile(filepath.Join(dir, "board"), append([]byte("xy"), make([]byte, 4094)...), 0o666); err != nil {
		t.Fatal(err)
	}
	restored := goOn(t, driver, kept, sandbox.Spec{Mounts: []sandbox.Mount{mount}})
	for _, instance := range append(fork(t, restored, 1), restored) {
		again := converse(t, instance, python.pid)
		again.say(t, "b")
		again.hear(t, map[bool]string{true: "3", false: "2"}[instance == restored]+" y /mnt/deep")
	}
	for name, want := range map[string]string{"deep/log": "a\nb\nb\n", "deep/here": "b\n"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != want {
			t.Errorf("%s holds %q, %v", name, text, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "board")); err != nil || string(text[:2]) != "by" {
		t.Errorf("what processes share as memory holds %q, %v", text[:2], err)
	}
}

// TestCheckpointWantsItsMounts: without them there may be other files under their names.
func TestCheckpointWantsItsMounts(t *testing.T) {
	driver := processKeeper(t, t.TempDir())
	_, mount := volume(t)
	mount.Writable = false
	source := create(t, driver, sandbox.Spec{Mounts: []sandbox.Mount{mount}})
	goOn(t, driver, checkpointOf(t, source), sandbox.Spec{}) // nothing runs
	converse(t, source, 0, "python3", "-c", adder).hear(t, "primed")
	kept := checkpointOf(t, source)
	elsewhere := mount
	elsewhere.Target = "/srv"
	for _, mounts := range [][]sandbox.Mount{nil, {elsewhere}} {
		_, err := driver.Restore(t.Context(), kept, sandbox.Checkpoint, sandbox.Spec{Mounts: mounts})
		wantRefusal(t, err, sandbox.Conflict, "which is not given again")
	}
	goOn(t, driver, kept, sandbox.Spec{Mounts: []sandbox.Mount{elsewhere, mount}})
}

// TestForkWithAnotherMount: a child has the mounts of its source, and those that it is
// asked to have besides.
func TestForkWithAnotherMount(t *testing.T) {
	dir := shared(t)
	source := mounted(t, sandbox.Mount{Source: dir, Target: "/mnt"})
	converse(t, source, 0, "python3", "-c", adder).hear(t, "primed")
	children := forkInto(t, source, sandbox.Spec{Mounts: []sandbox.Mount{{Source: dir, Target: "/srv/more"}}})
	defer destroy(t, children[0])
	if got := sh(t, children[0], "cat /mnt/file /srv/more/file"); got != "outsideoutside" {
		t.Errorf("got %q", got)
	}
}
