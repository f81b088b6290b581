package cell_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/internal/host/checkpoint/checkpointtest"
	"aether/sandbox"
)

// checkpointOf keeps the processes of a cell, and goOn has them go on in another.
func checkpointOf(t testing.TB, instance sandbox.Instance) (dir string) {
	t.Helper()
	return keep(t, instance, sandbox.Checkpoint)
}

func goOn(t testing.TB, driver *cell.Driver, dir string, spec sandbox.Spec) sandbox.Instance {
	t.Helper()
	return give(t, driver, dir, sandbox.Checkpoint, spec)
}

// processKeeper is a driver of its own. Drivers of one directory share their snapshots.
func processKeeper(t testing.TB, dir string) *cell.Driver {
	t.Helper()
	driver := cell.New(cell.Options{Images: images, RunDir: filepath.Join(dir, "run")})
	t.Cleanup(func() {
		if err := driver.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return driver
}

// TestCheckpointCarriesOver wants of a restored process what is wanted of a
// forked one, when its cell is gone, and that it can be kept again.
func TestCheckpointCarriesOver(t *testing.T) {
	needRoot(t, "checkpoint of everything that a process may hold")
	dir := t.TempDir()
	first, second := processKeeper(t, dir), processKeeper(t, dir)
	for _, k := range checkpointtest.Carried {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			source := create(t, first, sandbox.Spec{})
			python := converse(t, source, 0, "python3", "-c", k.Program())
			python.hear(t, "primed")
			kept := checkpointOf(t, source)
			destroy(t, source)
			child := goOn(t, second, kept, sandbox.Spec{})
			grandchild := goOn(t, first, checkpointOf(t, child), sandbox.Spec{})
			for _, instance := range []sandbox.Instance{grandchild, child, goOn(t, second, kept, sandbox.Spec{})} {
				c := converse(t, instance, python.pid)
				c.say(t, "?")
				c.hear(t, k.Want)
			}
		})
	}
}

func TestCheckpointRefuses(t *testing.T) {
	needRoot(t, "checkpoint of everything that a process may hold")
	driver := processKeeper(t, t.TempDir())
	for _, c := range checkpointtest.Refused {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			source := create(t, driver, sandbox.Spec{})
			python := converse(t, source, 0, "python3", "-c", c.Program())
			python.hear(t, "primed")
			dir := t.TempDir()
			err := source.(sandbox.Snapshotter).Snapshot(t.Context(), dir, sandbox.Checkpoint)
			var refusal *sandbox.Error
			if !errors.As(err, &refusal) || refusal.Class != sandbox.Conflict || strings.Contains(err.Error(), "fork:") {
				t.Fatalf("the snapshot says %v", err)
			}
			if !strings.Contains(refusal.Reason, c.Says) || refusal.Retry != c.Retry || refusal.Remedy == "" {
				t.Errorf("it says %v, not %q", err, c.Says)
			}
			wantEmpty(t, dir)
			python.say(t, "?")
			python.hear(t, "lives")
		})
	}
}

// TestCheckpointOfManyKindsOfCommands has a family, a terminal, a runtime with
// threads and two that share something go on together.
func TestCheckpointOfManyKindsOfCommands(t *testing.T) {
	needRoot(t, "checkpoint of everything that a process may hold")
	driver := processKeeper(t, t.TempDir())
	source := create(t, driver, sandbox.Spec{})
	family := converse(t, source, 0, "sh", "-c", `exec 2>&1; python3 -c '`+adder+`'; echo "ended $?"`)
	family.hear(t, "primed")
	bash := onTerminal(t, source, 0, "bash", "--norc", "--noprofile", "-i")
	bash.say(t, "PS1=; kept=variable; stty -echo; echo be''gun; cat")
	bash.until(t, "begun")
	node := converse(t, source, 0, "node", "-e", nodeAdder)
	node.hear(t, "primed")
	first := converse(t, source, 0, "python3", "-c", checkpointtest.Kind{Before: `
memory = os.memfd_create("both"); os.ftruncate(memory, 4096); shared = mmap.mmap(memory, 4096)
r, w = os.pipe(); l = socket.socket(socket.AF_UNIX); l.bind("/tmp/meet"); l.listen()
threading.Thread(target=lambda: globals().update(peer=l.accept()[0]) or socket.send_fds(peer, [b"x"], [memory, r])).start()`, Answer: `
shared[0:4] = b"held"; os.write(w, b"piped"); peer.send(b"sent")
return "done"`}.Program())
	first.hear(t, "primed")
	second := converse(t, source, 0, "python3", "-c", checkpointtest.Kind{Before: `
c = socket.socket(socket.AF_UNIX); c.connect("/tmp/meet")
_, (memory, r), _, _ = socket.recv_fds(c, 1, 2)
shared = mmap.mmap(memory, 4096)`, Answer: `return shared[0:4], os.read(r, 9), c.recv(9)`}.Program())
	second.hear(t, "primed")
	dir := checkpointOf(t, source)
	destroy(t, source)
	for i := range 2 {
		restored := goOn(t, driver, dir, sandbox.Spec{})
		c := converse(t, restored, family.pid)
		c.say(t, fmt.Sprint(i))
		c.hear(t, fmt.Sprintf("%d %d written before", 4999950000+i, family.pid+1))
		c.say(t, "no number")
		c.until(t, "ValueError")
		c.until(t, "ended 1")
		c = onTerminal(t, restored, bash.pid)
		c.say(t, fmt.Sprintf("line %d", i))
		c.until(t, fmt.Sprintf("line %d", i))
		c.say(t, fmt.Sprintf("\x04\necho $kept $((20+%d)) $(tty)", i))
		c.until(t, fmt.Sprintf("variable %d /dev/pts/0", 20+i))
		c = converse(t, restored, node.pid)
		c.say(t, fmt.Sprint(i))
		c.hear(t, fmt.Sprint(4999950000+i))
		a, b := converse(t, restored, first.pid), converse(t, restored, second.pid)
		a.say(t, "?")
		a.hear(t, "done")
		b.say(t, "?")
		b.hear(t, "(b'held', b'piped', b'sent')")
	}
}

// TestCheckpointOfAPausedCell leaves it paused, and what comes of it is not.
func TestCheckpointOfAPausedCell(t *testing.T) {
	needRoot(t, "cgroups to pause with")
	driver := processKeeper(t, t.TempDir())
	source := create(t, driver, sandbox.Spec{})
	python := converse(t, source, 0, "python3", "-c", adder)
	python.hear(t, "primed")
	pauser := source.(sandbox.Pauser)
	if err := pauser.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		restored := goOn(t, driver, checkpointOf(t, source), sandbox.Spec{})
		for _, instance := range append(fork(t, restored, 1), restored) {
			c := converse(t, instance, python.pid)
			c.say(t, fmt.Sprint(i))
			c.hear(t, fmt.Sprintf("%d %d written before", 4999950000+i, python.pid))
		}
	}
	if err := pauser.Pause(t.Context()); sandbox.ClassOf(err) != sandbox.Conflict {
		t.Errorf("pausing it again: %v", err)
	}
	if err := pauser.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	python.say(t, "7")
	python.hear(t, fmt.Sprintf("4999950007 %d written before", python.pid))
}

// TestCheckpointIsOfOneInstant keeps a process that writes what it counts to a
// file: both are kept at the same count.
func TestCheckpointIsOfOneInstant(t *testing.T) {
	driver := processKeeper(t, t.TempDir())
	source := create(t, driver, sandbox.Spec{})
	python := converse(t, source, 0, "python3", "-c", `
import mmap, os, select, sys
f = os.open("/tmp/count", os.O_RDWR | os.O_CREAT)
count = 0
while not select.select([0], [], [], 0)[0]:
    os.pwrite(f, b"%20d" % (count + 1), 0)
    count += 1
    if count == 1: print("primed", flush=True)
print(count - int(os.pread(f, 20, 0)), count > 0, flush=True)`)
	python.hear(t, "primed")
	time.Sleep(50 * time.Millisecond)
	restored := goOn(t, driver, checkpointOf(t, source), sandbox.Spec{})
	c := converse(t, restored, python.pid)
	c.say(t, "stop")
	c.hear(t, "0 True")
}

// TestRestoredProcessesAreConfined compares a restored process with a command of
// its cell, whose confinement is tested elsewhere.
func TestRestoredProcessesAreConfined(t *testing.T) {
	driver := processKeeper(t, t.TempDir())
	source := create(t, driver, sandbox.Spec{})
	const program = `
import os, re, sys
def own():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    kept = ["Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters"]
    spaces = [os.readlink("/proc/self/ns/" + n) for n in ["mnt", "pid", "net", "ipc", "uts", "user", "cgroup"]]
    return [status[k].strip() for k in kept] + spaces + [open("/proc/self/cgroup").read(), open("/proc/self/limits").read()]
print("primed", flush=True)
for line in sys.stdin: print(own(), sorted(os.listdir("/proc/self/fd"))[:3], flush=True)
`
	python := converse(t, source, 0, "python3", "-c", program)
	python.hear(t, "primed")
	restored := goOn(t, driver, checkpointOf(t, source), sandbox.Spec{})
	fresh := converse(t, restored, 0, "python3", "-c", program)
	fresh.hear(t, "primed")
	fresh.say(t, "?")
	want, err := fresh.lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	c := converse(t, restored, python.pid)
	c.say(t, "?")
	c.hear(t, strings.TrimSuffix(want, "\n"))
}

// TestRestoredMemoryIsTheCells: it counts against the limit of its own cell.
func TestRestoredMemoryIsTheCells(t *testing.T) {
	needRoot(t, "cgroups to count with")
	driver := processKeeper(t, t.TempDir())
	source := create(t, driver, sandbox.Spec{})
	python := converse(t, source, 0, "python3", "-c", `
held = bytearray(b"x" * (100 << 20))
print("primed", flush=True)
print(input(), len(held), flush=True)`)
	python.hear(t, "primed")
	dir := checkpointOf(t, source)
	restored := goOn(t, driver, dir, sandbox.Spec{})
	stats, err := restored.Stats(t.Context())
	if err != nil || stats.MemoryBytes == nil || *stats.MemoryBytes < 100<<20 {
		t.Errorf("a cell with 100 MiB restored has %v, %v", stats.MemoryBytes, err)
	}
	c := converse(t, restored, python.pid)
	c.say(t, "held")
	c.hear(t, "held 104857600")
	instance, err := driver.Restore(t.Context(), dir, sandbox.Checkpoint, sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: 32 << 20}})
	if err == nil {
		destroy(t, instance)
	}
	if sandbox.ClassOf(err) != sandbox.Exhausted {
		t.Errorf("100 MiB in a cell with 32: %v", err)
	}
}

// TestFidelityIsAskedFor: each call keeps and gives what it says, and no other.
func TestFidelityIsAskedFor(t *testing.T) {
	driver := processKeeper(t, t.TempDir())
	source := create(t, driver, sandbox.Spec{})
	if got := sandbox.VerbsOf(driver, source); got != driver.Info().Verbs || got.Snapshot != sandbox.Checkpoint || got.Restore != sandbox.Checkpoint {
		t.Errorf("it says %+v", got)
	}
	python := converse(t, source, 0, "python3", "-c", adder)
	python.hear(t, "primed")
	kept := checkpointOf(t, source)
	files := restore(t, driver, kept, sandbox.Spec{})
	sh(t, files, "grep before /tmp/kept && ! grep python /proc/[0-9]*/comm")
	_, err := driver.Restore(t.Context(), snapshotOf(t, files), sandbox.Checkpoint, sandbox.Spec{})
	wantRefusal(t, err, sandbox.Conflict, "files only")
	_, err = driver.Restore(t.Context(), kept, sandbox.Live, sandbox.Spec{})
	wantRefusal(t, err, sandbox.Unsupported, `fidelity "live"`)
	wantRefusal(t, source.(sandbox.Snapshotter).Snapshot(t.Context(), t.TempDir(), sandbox.Live), sandbox.Unsupported, `fidelity "live"`)
}

func wantRefusal(t testing.TB, err error, class sandbox.Class, says string) {
	t.Helper()
	var refusal *sandbox.Error
	if !errors.As(err, &refusal) || refusal.Class != class || !strings.Contains(refusal.Reason, says) || refusal.Remedy == "" {
		t.Errorf("it says %v, not %v, %q with a remedy", err, class, says)
	}
}

// TestCheckpointsLeaveNothing restores again and again, and what cannot be.
func TestCheckpointsLeaveNothing(t *testing.T) {
	needRoot(t, "checkpoint of everything that a process may hold")
	dir := t.TempDir()
	driver := processKeeper(t, dir)
	source := create(t, driver, sandbox.Spec{})
	python := converse(t, source, 0, "python3", "-c", checkpointtest.Kind{Before: `
m = os.memfd_create("m"); os.write(m, b"x" * 100000); s = mmap.mmap(-1, 1 << 20); s[0] = 1
r, w = os.pipe(); os.write(w, b"x"); p = select.epoll(); p.register(r, select.EPOLLIN)
if os.fork() == 0: signal.pause()`, Answer: "return 'lives'"}.Program())
	python.hear(t, "primed")
	kept := checkpointOf(t, source)
	damaged := damage(t, kept, func(doc map[string]any) {
		first := doc["processes"].(map[string]any)["processes"].([]any)[1].(map[string]any)
		first["state"].(map[string]any)["layout"].([]any)[0] = 1 // nothing can begin there
	})
	turn := func() {
		destroy(t, goOn(t, driver, kept, sandbox.Spec{}))
		if instance, err := driver.Restore(t.Context(), damaged, sandbox.Checkpoint, sandbox.Spec{}); err == nil {
			destroy(t, instance)
			t.Fatal("a process was made whose program is nowhere")
		}
		if err := source.(sandbox.Snapshotter).Snapshot(t.Context(), kept, sandbox.Checkpoint); sandbox.ClassOf(err) != sandbox.Conflict {
			t.Fatalf("a snapshot in a directory that has one: %v", err)
		}
	}
	for range 3 {
		turn()
	}
	before := takeCensus(t, filepath.Join(dir, "run"))
	for range few(20) {
		turn()
	}
	wantNoGrowth(t, before, filepath.Join(dir, "run"))
}

// BenchmarkCheckpoint keeps and restores a python that holds so much memory.
func BenchmarkCheckpoint(b *testing.B) {
	for _, size := range []int{0, 100} {
		driver := processKeeper(b, b.TempDir())
		source := create(b, driver, sandbox.Spec{})
		python := converse(b, source, 0, "python3", "-c", fmt.Sprintf("held = bytearray(b'x' * (%d << 20)); print('primed', flush=True); input()", size))
		python.hear(b, "primed")
		dir := checkpointOf(b, source)
		b.Run(fmt.Sprintf("snapshot %d MiB", size), func(b *testing.B) {
			for b.Loop() {
				checkpointOf(b, source)
			}
		})
		b.Run(fmt.Sprintf("restore %d MiB", size), func(b *testing.B) {
			for b.Loop() {
				instance, err := driver.Restore(b.Context(), dir, sandbox.Checkpoint, sandbox.Spec{})
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				destroy(b, instance)
				b.StartTimer()
			}
		})
	}
}
