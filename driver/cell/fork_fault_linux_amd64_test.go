package cell_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/driver/drivertest/leaktest"
	"aether/guest"
	"aether/image"
	"aether/sandbox"
)

// forkRefused wants a fork to fail with a class and to leave nothing.
func forkRefused(t *testing.T, source sandbox.Instance, spec sandbox.Spec, runDir string, want sandbox.Class) {
	t.Helper()
	before := takeCensus(t, runDir)
	children, err := source.(sandbox.Forker).Fork(t.Context(), []sandbox.Spec{spec})
	if err == nil {
		destroy(t, children[0])
	}
	wantClass(t, err, want, "")
	t.Logf("refused: %v", err)
	wantNoGrowth(t, before, runDir)
}

func TestForkBeyondTheProcessLimit(t *testing.T) {
	needRoot(t, "fork of such cells")
	driver, runDir := newDriver(t)
	few := sandbox.Spec{Limits: sandbox.Limits{Processes: 4}}
	// The first with such a limit has its driver make a control group that stays.
	destroy(t, create(t, driver, few))
	source := create(t, driver, sandbox.Spec{})
	threads := converse(t, source, 0, program(t, source, "fork_threads"))
	threads.hear(t, "primed")
	fork(t, source, 1)
	forkRefused(t, source, few, runDir, sandbox.Exhausted)
	threads.say(t, "1")
	threads.hear(t, fmt.Sprint(added(1)))
	child := converse(t, fork(t, source, 1)[0], threads.pid)
	child.say(t, "2")
	child.hear(t, fmt.Sprint(added(1, 2)))
}

const hoarder = `
import sys
held = bytearray(%d << 20)
for i in range(0, len(held), 4096): held[i] = 7
print("primed", flush=True)
for line in sys.stdin:
    for i in range(0, len(held), 4096): held[i] += 1
    print(sum(held[::4096]) // (len(held) // 4096), flush=True)
`

// TestForkAtTheMemoryLimit: a source that is at its limit has no room for
// anything; what a fork takes is not its own.
func TestForkAtTheMemoryLimit(t *testing.T) {
	needRoot(t, "cgroups to limit memory by")
	driver, _ := newDriver(t)
	source := create(t, driver, sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: 64 << 20}})
	c := converse(t, source, 0, "python3", "-c", fmt.Sprintf(hoarder, 46))
	c.hear(t, "primed")
	for range 5 {
		children := fork(t, source, 2)
		for _, child := range children {
			if err := ask(t.Context(), child, c.pid, "", "8\n"); err != nil {
				t.Error(err)
			}
			destroy(t, child)
		}
	}
	c.say(t, "")
	c.hear(t, "8")
}

// TestForkIntoTooLittleMemory: the child may be refused, or ended when it writes
// more than it may; it never takes more, nor anybody with it.
func TestForkIntoTooLittleMemory(t *testing.T) {
	needRoot(t, "cgroups to limit memory by")
	driver, _ := newDriver(t)
	source := create(t, driver, sandbox.Spec{})
	c := converse(t, source, 0, "python3", "-c", fmt.Sprintf(hoarder, 64))
	c.hear(t, "primed")
	const limit = 24 << 20
	children, err := source.(sandbox.Forker).Fork(t.Context(), []sandbox.Spec{{Limits: sandbox.Limits{MemoryBytes: limit}}})
	if err != nil {
		wantClass(t, err, sandbox.Exhausted, "")
	} else {
		defer destroy(t, children[0])
		stats, err := children[0].Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if stats.MemoryBytes != nil {
			t.Logf("a child of a source with 64 MiB is said to hold %d KiB", *stats.MemoryBytes>>10)
		}
		if err := ask(t.Context(), children[0], c.pid, "", "8\n"); err == nil {
			t.Errorf("a child wrote 64 MiB with a limit of %d", limit)
		} else {
			t.Logf("the child: %v", err)
		}
	}
	c.say(t, "")
	c.hear(t, "8")
}

// forkRole is a program that forks until it is killed.
const forkRole = "fork"

func init() { roles[forkRole] = forkAll }

func forkAll() error {
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(os.Getenv(churnMark)), 0); err != nil {
		return err
	}
	driver := cell.New(cell.Options{RunDir: os.Getenv(churnRunDir), Ahead: 2,
		Images: func() (*image.Store, error) { return image.Open(os.Getenv(churnStore)) }})
	ctx := context.Background()
	source, err := driver.Create(ctx, sandbox.Spec{})
	if err != nil {
		return err
	}
	c := guest.NewClient(source.Dial, guest.ClientOptions{})
	if _, err := c.Start(ctx, guest.Cmd{Path: "python3", Args: []string{"-c", "import time; time.sleep(1000)"}}); err != nil {
		return err
	}
	for {
		children, err := source.(sandbox.Forker).Fork(ctx, make([]sandbox.Spec, 3))
		if passes(err) {
			continue
		}
		if err != nil {
			return err
		}
		for _, child := range children[1:] { // one stays
			if err := child.Destroy(ctx); err != nil {
				return err
			}
		}
	}
}

// TestKilledWhileForking kills programs in the midst of forks: no zygote and no
// child outlives them.
func TestKilledWhileForking(t *testing.T) {
	needRoot(t, "fork of cells")
	driver, _ := newDriver(t)
	if err := life(t.Context(), driver); err != nil { // makes the image
		t.Fatal(err)
	}
	seed, latest := rand.Uint64(), 300*time.Millisecond
	if raceEnabled {
		latest *= 3
	}
	moments := rand.New(rand.NewPCG(seed, 0))
	before := takeCensus(t, t.TempDir())
	rounds, busy := few(30), 0
	first := leaktest.FreeMarks(t, 100, 1000, rounds)
	var all []victim
	for n := range rounds {
		v := victim{role: forkRole, mark: strconv.Itoa(first + n), runDir: filepath.Join(t.TempDir(), "run"),
			after: latest/4 + time.Duration(moments.Int64N(int64(latest)))}
		const forked = 7 // children that it has then
		if n == 0 {
			v.until = forked
		}
		if v.die(t) >= forked {
			busy++
		}
		all = append(all, v)
	}
	t.Logf("seed %d: %d of %d had forked", seed, busy, len(all))
	wantNoOrphans(t, all)
	for n, v := range all {
		v.wantReaped(t, n%2 == 0)
	}
	if busy == 0 {
		t.Error("no program was killed while it forked")
	}
	if grown := newIn(before.Mounts, takeCensus(t, t.TempDir()).Mounts); len(grown) > 0 {
		t.Errorf("mounts are left: %q", grown)
	}
}

// TestForkAndRandomness: what the kernel gives differs; what a program computes
// from its own state does not until it takes fresh state.
func TestForkAndRandomness(t *testing.T) {
	needRoot(t, "fork of such cells")
	driver, _ := newDriverAhead(t, ahead)
	source := create(t, driver, sandbox.Spec{})
	python := converse(t, source, 0, "python3", "-c", `
import sys, os, uuid, random
random.random()
print("primed", flush=True)
for line in sys.stdin:
    print(os.urandom(8).hex(), uuid.uuid4(), random.random(), flush=True)
    random.seed()
    print(random.random(), flush=True)
`)
	python.hear(t, "primed")
	kernel, unique, computed, seeded := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	const count = 8
	for _, child := range fork(t, source, count) {
		c := converse(t, child, python.pid)
		c.say(t, "")
		line, err := c.lines.ReadString('\n')
		fields := strings.Fields(line)
		again, _ := c.lines.ReadString('\n')
		if err != nil || len(fields) != 3 {
			t.Fatalf("%q, %v", line, err)
		}
		kernel[fields[0]], unique[fields[1]], computed[fields[2]], seeded[again] = true, true, true, true
	}
	if len(kernel) != count || len(unique) != count || len(computed) != 1 || len(seeded) != count {
		t.Errorf("of %d children, %d have their own urandom, %d uuid4, %d random, %d random after seed",
			count, len(kernel), len(unique), len(computed), len(seeded))
	}
}
