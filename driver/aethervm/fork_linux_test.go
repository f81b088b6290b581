package aethervm

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"aether/driver/vmm"
	"aether/driver/vmm/vmmtest"
	"aether/guest"
	"aether/internal/host/cgroup"
	"aether/sandbox"
)

// newDriver wants nothing to be left of the driver at the end.
func newDriver(t *testing.T) *vmm.Driver {
	t.Helper()
	return newDriverWith(t, func(*vmm.Options) {})
}

// newDriverWith is newDriver with options that are others than the suite's.
func newDriverWith(t *testing.T, set func(*vmm.Options)) *vmm.Driver {
	t.Helper()
	suite.Need(t)
	opts := vmmtest.Options(t.TempDir())
	set(&opts)
	d := New(opts)
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if n, err := cgroup.Reap(context.Background(), opts.RunDir); n != 0 || err != nil {
			t.Errorf("%d groups are left, %v", n, err)
		}
	})
	return d
}

func specOf(id string) sandbox.Spec {
	return sandbox.Spec{ID: id, Image: vmmtest.Image(), Limits: sandbox.Limits{MemoryBytes: 160 << 20}, Command: sandbox.CommandDefaults{User: "0"}}
}

func create(t *testing.T, d *vmm.Driver, id string) sandbox.Instance {
	t.Helper()
	i, err := d.Create(t.Context(), specOf(id))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// start starts a script in a machine, whose end nobody hears of.
func start(t *testing.T, i sandbox.Instance, script string) *guest.Client {
	t.Helper()
	client := guest.NewClient(i.Dial, guest.ClientOptions{})
	if _, err := client.Start(t.Context(), guest.Cmd{Path: "/bin/sh", Args: []string{"-c", "sleep 1; " + script}}); err != nil {
		t.Fatal(err)
	}
	return client
}

// run runs a script in a machine.
func run(t *testing.T, i sandbox.Instance, script string) string {
	t.Helper()
	client := guest.NewClient(i.Dial, guest.ClientOptions{})
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out bytes.Buffer
	running, err := client.Start(ctx, guest.Cmd{Path: "/bin/sh", Args: []string{"-c", script}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := running.Wait(); err != nil || status.Code != 0 {
		t.Fatalf("%s: %+v, %v: %s", script, status, err, out.String())
	}
	return strings.TrimSpace(out.String())
}

func fork(t *testing.T, i sandbox.Instance, ids ...string) []sandbox.Instance {
	t.Helper()
	var specs []sandbox.Spec
	for _, id := range ids {
		specs = append(specs, sandbox.Spec{ID: id})
	}
	children, err := i.(sandbox.Forker).Fork(t.Context(), specs)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d children; the source stood still for %v", len(children), i.(sandbox.ForkReporter).LastForkPause())
	return children
}

// drawing leaves a process that draws random numbers without a pause, and says in a file
// which was the how manieth.
const drawing = `(n=0; while read id < /proc/sys/kernel/random/uuid; do n=$((n+1)); echo $n $id >> /tmp/drawn; done) > /dev/null 2>&1 &`

// TestForkRenews: children that are made in one call are told from each other and from the
// source before the first of their instructions: what a process draws that was running is
// not the same in any two of them. The source goes on, and so does a command on it.
func TestForkRenews(t *testing.T) {
	d := newDriver(t)
	i := create(t, d, "source")
	run(t, i, "echo 00000000000000000000000000000000 > /etc/machine-id; "+drawing)
	client := guest.NewClient(i.Dial, guest.ClientOptions{})
	defer client.Close()
	var out bytes.Buffer
	command, err := client.Start(t.Context(), guest.Cmd{Path: "/bin/sh", Args: []string{"-c", "until [ -e /tmp/stop ]; do sleep 0.1; done; echo over"}, Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	before := run(t, i, events) // of its own beginning, as a copy of a template
	ids := []string{"one", "two", "three"}
	children := fork(t, i, ids...)
	// What was drawn before is in the files of all.
	texts := map[string]string{"source": run(t, i, "cat /tmp/drawn")}
	for n, child := range children {
		texts[ids[n]] = run(t, child, "cat /tmp/drawn")
	}
	common := prefix(texts)
	if common < 2 {
		t.Fatalf("nothing was drawn before the fork: %.200q", texts)
	}
	seen := map[string]string{} // who has drawn it, since
	for name, text := range texts {
		since := strings.Split(text, "\n")[common:]
		if len(since) < 2 {
			t.Errorf("%s has drawn nothing since", name)
		}
		for _, line := range since {
			if other, known := seen[line]; known && line != "" {
				t.Errorf("%s and %s have both drawn %q after the fork", name, other, line)
			}
			seen[line] = name
		}
	}
	names := map[string]bool{}
	for n, child := range children {
		said := run(t, child, "hostname; cat /etc/machine-id")
		name, id, _ := strings.Cut(said, "\n")
		if name != ids[n] || names[id] || strings.Trim(id, "0") == "" || len(id) != 32 {
			t.Errorf("%s says that it is %q", ids[n], said)
		}
		names[id] = true
		if got := child.(sandbox.RenewalReporter).Renewed(); !slices.Contains(got, "entropy") || !slices.Contains(got, "machine_id") || !slices.Contains(got, "generation_id") {
			t.Errorf("%s was told %q", ids[n], got)
		}
		wantTime(t, child)
		wantGeneration(t, child, before, names)
	}
	if got := run(t, i, events); got != before {
		t.Errorf("the source was told of %q events, before of %q", got, before)
	}
	if got := run(t, i, "hostname; cat /etc/machine-id; touch /tmp/stop"); got != "source\n00000000000000000000000000000000" {
		t.Errorf("the source says that it is %q", got)
	}
	if status, err := command.Wait(); err != nil || status.Code != 0 || out.String() != "over\n" {
		t.Errorf("the command on the source: %+v, %v, %q", status, err, out.String())
	}
}

// prefix is how many lines all have in common.
func prefix(texts map[string]string) int {
	var all [][]string
	for _, text := range texts {
		all = append(all, strings.Split(text, "\n"))
	}
	for n := 0; ; n++ {
		for _, lines := range all {
			if n >= len(lines) || lines[n] != all[0][n] {
				return n
			}
		}
	}
}

func wantTime(t *testing.T, i sandbox.Instance) {
	t.Helper()
	seconds, err := strconv.ParseInt(run(t, i, "date +%s"), 10, 64)
	if away := time.Since(time.Unix(seconds, 0)).Abs(); err != nil || away > time.Minute {
		t.Errorf("its clock is off by %v, %v", away, err)
	}
}

// events is how often the kernel was told by ACPI that something has happened.
const events = "grep 'ACPI:Ged' /proc/interrupts | awk '{print $2}'"

// wantGeneration wants a child to have a number of its own where kernels look for it, and its
// kernel to have been told, once more than the source's before.
func wantGeneration(t *testing.T, i sandbox.Instance, before string, seen map[string]bool) {
	t.Helper()
	said := run(t, i, "cat /sys/bus/acpi/devices/AETHVGEN:00/path; "+events+"; dd if=/dev/mem bs=4096 skip=255 count=1 2> /dev/null | head -c 16 | od -An -tx1")
	lines := strings.Split(said, "\n")
	if len(lines) != 3 || lines[0] != `\_SB_.VGEN` || lines[1] == before || len(strings.Fields(lines[2])) != 16 || seen[lines[2]] {
		t.Errorf("of its generation %s says %q", i.ID(), lines)
		return
	}
	seen[lines[2]] = true
}

// TestForksOfForks: each is a fork of the one before, which is gone by then, and has what
// all of them have written; what one writes no other sees.
func TestForksOfForks(t *testing.T) {
	d := newDriver(t)
	i := create(t, d, "g0")
	const depth = 16
	run(t, i, "(n=0; while :; do n=$((n+1)); echo $n > /tmp/count.new; mv /tmp/count.new /tmp/count; sleep 0.05; done) > /dev/null 2>&1 &")
	last := 0
	for n := 1; n <= depth; n++ {
		run(t, i, fmt.Sprintf("echo %d >> /tmp/generations", n))
		child := fork(t, i, fmt.Sprintf("g%d", n))[0]
		run(t, i, "echo other >> /tmp/generations")
		if err := i.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
		count, err := strconv.Atoi(run(t, child, "cat /tmp/count"))
		if err != nil || count < last {
			t.Errorf("generation %d counts %d after %d, %v", n, count, last, err)
		}
		i, last = child, count
	}
	if got := strings.Fields(run(t, i, "cat /tmp/generations")); len(got) != depth || got[depth-1] != strconv.Itoa(depth) {
		t.Errorf("the last has %q", got)
	}
	wantTime(t, i)
}

// TestForksOfOne: a machine is forked more often than its memory can be in files, and each child
// has what was there until then. In between the files become few, while nobody waits.
func TestForksOfOne(t *testing.T) {
	d := newDriver(t)
	i := create(t, d, "source")
	want := ""
	for n := range 20 {
		run(t, i, fmt.Sprintf("echo %d >> /tmp/rounds; sleep 0.2", n))
		want += strconv.Itoa(n) + "\n"
		child := fork(t, i, fmt.Sprintf("round%d", n))[0]
		if got := run(t, child, "cat /tmp/rounds"); got != strings.TrimSpace(want) {
			t.Errorf("child %d has %q", n, got)
		}
		if err := child.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestForkOfPaused: what templates are made of is paused, and forked again and again. One that
// was restored is forked as well.
func TestForkOfPaused(t *testing.T) {
	d := newDriver(t)
	i := create(t, d, "template")
	run(t, i, "echo kept > /tmp/state")
	if err := i.(sandbox.Pauser).Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		for _, child := range fork(t, i, fmt.Sprintf("a%d", n), fmt.Sprintf("b%d", n)) {
			if got := run(t, child, "cat /tmp/state; echo changed > /tmp/state"); got != "kept" {
				t.Errorf("a child has %q", got)
			}
			if err := child.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	dir := t.TempDir()
	if err := i.(sandbox.Snapshotter).Snapshot(t.Context(), dir, sandbox.Checkpoint); err != nil {
		t.Fatal(err)
	}
	if err := i.(sandbox.Pauser).Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(t, i, "echo later > /tmp/state")
	restored, err := d.Restore(t.Context(), dir, sandbox.Checkpoint, sandbox.Spec{ID: "restored"})
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range fork(t, restored, "c0", "c1") {
		if got := run(t, child, "cat /tmp/state; hostname"); !strings.HasPrefix(got, "kept\nc") {
			t.Errorf("a fork of a restored one has %q", got)
		}
	}
}
