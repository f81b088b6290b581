package cell_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"aether/sandbox"
)

// daemonise becomes a daemon as the books have it, with a worker, and both count on in
// memory and say how far they are.
const daemonise = `
import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.chdir("/")
null = os.open("/dev/null", os.O_RDWR)
for n in range(3): os.dup2(null, n)
name = "worker" if os.fork() == 0 else "daemon"
` + counting

const counting = `
n = 0
while True:
    n += 1
    open(f"/tmp/{name}.new", "w").write(f"{os.getpid()} {n}"); os.rename(f"/tmp/{name}.new", f"/tmp/{name}")
    time.sleep(0.005)
`

// startOrphans leaves a daemon, and a job of a shell that has ended, running in a cell.
func startOrphans(t testing.TB, instance sandbox.Instance) {
	t.Helper()
	sh(t, instance, "exec python3 - <<'END'\n"+daemonise+"\nEND")
	sh(t, instance, "python3 -c '\nimport os, time\nname = \"job\"\n"+counting+"' </dev/null >/dev/null 2>&1 &")
	sh(t, instance, "until [ -e /tmp/daemon ] && [ -e /tmp/worker ] && [ -e /tmp/job ]; do sleep 0.01; done")
}

// orphansOf is who they are and how far they have counted.
func orphansOf(t testing.TB, instance sandbox.Instance) (who string, counts [3]int) {
	t.Helper()
	for i, name := range []string{"daemon", "worker", "job"} {
		var own string
		text := sh(t, instance, "cat /tmp/"+name)
		if _, err := fmt.Sscan(text, &own, &counts[i]); err != nil {
			t.Fatalf("%s says %q: %v", name, text, err)
		}
		who += own + " "
	}
	return who, counts
}

// wantOrphans wants them to count on, from where they were.
func wantOrphans(t testing.TB, instance sandbox.Instance, who string, from [3]int) {
	t.Helper()
	var now [3]int
	if !eventually(10*time.Second, func() bool {
		var is string
		if is, now = orphansOf(t, instance); is != who {
			t.Fatalf("they are %s, and were %s", is, who)
		}
		return now[0] > from[0] && now[1] > from[1] && now[2] > from[2]
	}) {
		t.Errorf("they were at %v and are at %v", from, now)
	}
}

// TestOrphansAreCarriedOver: what has outlived the process that started it is forked, kept
// and restored as everything else, again and again.
func TestOrphansAreCarriedOver(t *testing.T) {
	driver := processKeeper(t, t.TempDir())
	source := create(t, driver, sandbox.Spec{})
	startOrphans(t, source)
	python := converse(t, source, 0, "python3", "-c", adder) // beside a command
	python.hear(t, "primed")
	dir := checkpointOf(t, source)
	who, from := orphansOf(t, restore(t, driver, dir, sandbox.Spec{})) // as the files have it
	wantOrphans(t, source, who, from)
	child := goOn(t, driver, dir, sandbox.Spec{})
	again := goOn(t, driver, checkpointOf(t, child), sandbox.Spec{})
	forked := append(fork(t, source, 2), fork(t, again, 1)...)
	for i, instance := range append(forked, child, again, goOn(t, driver, dir, sandbox.Spec{})) {
		wantOrphans(t, instance, who, from)
		c := converse(t, instance, python.pid)
		c.say(t, fmt.Sprint(i))
		c.hear(t, fmt.Sprintf("%d %d written before", 4999950000+i, python.pid))
		wantFamily(t, instance, who)
	}
}

// wantFamily wants the worker to be the daemon's, the daemon to be no command, and nothing
// of one that is killed to be left.
func wantFamily(t testing.TB, instance sandbox.Instance, who string) {
	t.Helper()
	pids := strings.Fields(who)
	if got := sh(t, instance, "sed 's/.*) . //' /proc/"+pids[1]+"/stat | cut -d ' ' -f 1"); got != pids[0] {
		t.Errorf("the worker's parent is %s and not %s", got, pids[0])
	}
	sh(t, instance, "kill -9 "+pids[0]+"; until [ ! -e /proc/"+pids[0]+" ]; do sleep 0.01; done; [ -e /proc/"+pids[1]+" ]")
}

// TestOrphansLeaveNothing makes and destroys cells with restored orphans.
func TestOrphansLeaveNothing(t *testing.T) {
	needRoot(t, "a census of processes")
	dir := t.TempDir()
	driver := processKeeper(t, dir)
	source := create(t, driver, sandbox.Spec{})
	startOrphans(t, source)
	kept := checkpointOf(t, source)
	turn := func() { destroy(t, goOn(t, driver, kept, sandbox.Spec{})) }
	for range 3 {
		turn()
	}
	before := takeCensus(t, dir+"/run")
	for range 10 {
		turn()
	}
	wantNoGrowth(t, before, dir+"/run")
}

// TestCheckpointOfTheDead: a process that has ended and is not waited for yet is in the way
// for as long as that takes.
func TestCheckpointOfTheDead(t *testing.T) {
	source := create(t, processKeeper(t, t.TempDir()), sandbox.Spec{})
	python := converse(t, source, 0, "python3", "-c", `
import os
if os.fork() == 0: os._exit(0)
os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
print("primed", flush=True)
input(); os.wait(); print("waited", flush=True); input()`)
	python.hear(t, "primed")
	var refusal *sandbox.Error
	err := source.(sandbox.Snapshotter).Snapshot(t.Context(), t.TempDir(), sandbox.Checkpoint)
	if !errors.As(err, &refusal) || refusal.Class != sandbox.Conflict || !refusal.Retry {
		t.Fatalf("it says %v, and nothing of trying again", err)
	}
	python.say(t, "")
	python.hear(t, "waited")
	checkpointOf(t, source)
}
