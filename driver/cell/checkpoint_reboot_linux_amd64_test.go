package cell_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"aether/driver/cell"
	"aether/guest"
	"aether/image"
	"aether/sandbox"
)

const (
	elderRole     = "elder"
	elderVariable = "AETHER_CELL_TEST_ELDER"
	// elderAge is how much longer the elder's host seems to have been up, in seconds.
	elderAge = 1_000_000
)

func init() { roles[elderRole] = elder }

// timekeeper is a process that waits for times of clocks that began with the host, in each
// way there is, and tells of them when it is asked.
const timekeeper = `
import time, threading, select, ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
class spec(ctypes.Structure): _fields_ = [("sec", ctypes.c_long), ("nsec", ctypes.c_long)]
class both(ctypes.Structure): _fields_ = [("interval", spec), ("value", spec)]
def at(clock, after):
    t = time.clock_gettime(clock) + after
    return spec(int(t), int(t % 1 * 1e9))
fd = libc.timerfd_create(1, 0)
assert libc.timerfd_settime(fd, 1, ctypes.byref(both(spec(0, 0), at(1, 0.5))), None) == 0
done = []
def absolute():
    t = at(1, 0.5)
    while libc.clock_nanosleep(1, 1, ctypes.byref(t), None) == 4: pass
    done.append("nanosleep")
def condition():
    c = threading.Condition()
    with c: c.wait(0.5)
    done.append("condition")
def boottime():
    t = at(7, 0.5)
    while libc.clock_nanosleep(7, 1, ctypes.byref(t), None) == 4: pass
    done.append("boottime")
threads = [threading.Thread(target=f, daemon=True) for f in (absolute, condition, boottime)]
for t in threads: t.start()
print("primed", time.monotonic(), flush=True)
for line in sys.stdin:
    if line.strip() == "clock":
        print(time.monotonic(), time.clock_gettime(7), flush=True)
        continue
    before = time.monotonic()
    for t in threads: t.join()
    os.read(fd, 8)
    time.sleep(0.1)
    print(sorted(done), time.monotonic() - before < 60, flush=True)
`

func elderDriver(dir string) *cell.Driver {
	return cell.New(cell.Options{RunDir: filepath.Join(dir, "run"),
		Images: func() (*image.Store, error) { return image.Open(filepath.Join(dir, "images")) }})
}

// elder keeps a timekeeper and says its number.
func elder() error {
	dir, ctx := os.Getenv(elderVariable), context.Background()
	driver := elderDriver(dir)
	defer driver.Close(ctx)
	instance, err := driver.Create(ctx, sandbox.Spec{})
	if err != nil {
		return err
	}
	c := guest.NewClient(instance.Dial, guest.ClientOptions{})
	defer c.Close()
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	running, err := c.Start(ctx, guest.Cmd{Path: "python3", Args: []string{"-c", timekeeper}, Stdin: neverEnding{}, Stdout: in, Stderr: os.Stderr})
	if err != nil {
		return err
	}
	go running.Wait() // which brings its output, until this program ends
	said := make([]byte, 100)
	n, err := out.Read(said)
	if err != nil {
		return err
	}
	if err := instance.(sandbox.Snapshotter).Snapshot(ctx, filepath.Join(dir, "kept"), sandbox.Checkpoint); err != nil {
		return err
	}
	fmt.Println(running.Pid(), string(said[:n]))
	return instance.Destroy(ctx)
}

type neverEnding struct{}

func (neverEnding) Read([]byte) (int, error) { select {} }

// TestCheckpointSurvivesARestartOfTheHost: processes that were kept when the host had been
// up for eleven days longer go on with their clocks, and so does what is started beside
// them, forked from them and kept again.
func TestCheckpointSurvivesARestartOfTheHost(t *testing.T) {
	needRoot(t, "program with another clock")
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "kept"), 0o700); err != nil {
		t.Fatal(err)
	}
	driver := elderDriver(dir)
	t.Cleanup(func() { driver.Close(context.Background()) })
	pid, then := keptByElder(t, dir)

	first := goOn(t, driver, filepath.Join(dir, "kept"), sandbox.Spec{})
	now := wantClock(t, first, pid, then)
	forked := fork(t, first, 1)
	wantClock(t, forked[0], pid, now)
	wantClock(t, goOn(t, driver, checkpointOf(t, first), sandbox.Spec{}), pid, now)
	for _, instance := range []sandbox.Instance{first, forked[0]} {
		c := converse(t, instance, pid)
		c.say(t, "waits")
		c.hear(t, "['boottime', 'condition', 'nanosleep'] True")
	}
}

// wantClock wants the clocks of a cell to be further than a time, for what was kept and for
// a new command, and not much further.
func wantClock(t *testing.T, instance sandbox.Instance, pid int, then float64) (now float64) {
	t.Helper()
	c := converse(t, instance, pid)
	c.say(t, "clock")
	line, err := c.lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	kept := seconds(t, line)
	beside := seconds(t, sh(t, instance, `python3 -c 'import time; print(time.monotonic(), time.clock_gettime(7))'`))
	for i, clock := range []string{"monotonic", "boottime"} {
		if kept[i] < then || beside[i] < kept[i] || beside[i] > kept[i]+600 {
			t.Errorf("%s was %f, is %f, and %f beside it", clock, then, kept[i], beside[i])
		}
	}
	return kept[0]
}

func seconds(t *testing.T, text string) (list []float64) {
	t.Helper()
	for _, word := range strings.Fields(text) {
		n, err := strconv.ParseFloat(word, 64)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, n)
	}
	if len(list) != 2 {
		t.Fatalf("%q are not two clocks", text)
	}
	return list
}

// keptByElder has a program keep a timekeeper whose host has been up for longer, and gives
// its number and its clock.
func keptByElder(t *testing.T, dir string) (pid int, clock float64) {
	t.Helper()
	ahead := strconv.Itoa(elderAge)
	cmd := exec.Command("unshare", "--time", "--monotonic", ahead, "--boottime", ahead, "--", "/proc/self/exe")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Args[len(cmd.Args)-1] = self
	cmd.Env = append(os.Environ(), roleVariable+"="+elderRole, elderVariable+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := fmt.Sscanf(string(out), "%d primed %f", &pid, &clock); err != nil || clock < elderAge {
		t.Fatalf("the elder says %q: %v", out, err)
	}
	return pid, clock
}
