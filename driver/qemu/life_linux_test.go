package qemu

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"aether/driver/vmm"
	"aether/driver/vmm/vmmtest"
	"aether/guest"
	"aether/sandbox"
)

// run runs a script in a machine.
func run(t testing.TB, i sandbox.Instance, script string) string {
	t.Helper()
	client := guest.NewClient(i.Dial, guest.ClientOptions{})
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience(t))
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

// A machine's whole life, in one boot: the suite of all drivers says the same at
// length, where machines are fast enough for it.
func TestLife(t *testing.T) {
	d := driverWith(t, func(*Options) {})
	spec := testSpec()
	spec.ID, spec.Limits = "one", sandbox.Limits{MemoryBytes: 128 << 20, CPUs: 1, Processes: 64, DiskBytes: 1 << 20}
	spec.Command.Env = map[string]string{"GREETING": "a b"}
	i, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := run(t, i, `echo "$GREETING $(hostname) $(grep -c ^processor /proc/cpuinfo)"; cat /sys/fs/cgroup/commands/pids.max`), "a b one 1\n64"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	run(t, i, "! head -c 2M /dev/zero > /root/file && rm /root/file")
	run(t, i, "echo kept > /root/state; (n=0; while :; do n=$((n+1)); echo $n > /tmp/count.new; mv /tmp/count.new /tmp/count; sleep 0.1; done) > /dev/null 2>&1 &")
	pauseAndResume(t, i)
	dir := t.TempDir()
	if err := i.(sandbox.Snapshotter).Snapshot(t.Context(), dir, sandbox.Checkpoint); err != nil {
		t.Fatal(err)
	}
	run(t, i, "echo changed > /root/state")
	restored, err := d.Restore(t.Context(), dir, sandbox.Checkpoint, sandbox.Spec{ID: "two"})
	if err != nil {
		t.Fatal(err)
	}
	children, err := i.(sandbox.Forker).Fork(t.Context(), []sandbox.Spec{{ID: "three"}, {ID: "four"}})
	if err != nil {
		t.Fatal(err)
	}
	goesOn(t, restored, "kept")
	secrets := map[string]bool{}
	for _, child := range children {
		goesOn(t, child, "changed")
		secrets[run(t, child, "head -c 16 /dev/urandom | od -x")] = true
	}
	if len(secrets) != 2 {
		t.Errorf("two forks have the same secrets: %v", secrets)
	}
	endAll(t, append(children, i, restored))
}

func pauseAndResume(t *testing.T, instance sandbox.Instance) {
	t.Helper()
	i := instance.(sandbox.Pauser)
	if err := i.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := i.Pause(t.Context()); sandbox.ClassOf(err) != sandbox.Conflict {
		t.Errorf("paused twice: %v", err)
	}
	if err := i.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantTime(t, instance)
}

// wantTime wants a clock that was set, on a host of any speed.
func wantTime(t *testing.T, i sandbox.Instance) {
	t.Helper()
	inside, err := time.Parse(time.RFC3339, run(t, i, "date -u +%Y-%m-%dT%H:%M:%SZ"))
	if late := time.Since(inside); err != nil || late > within(t, 90*time.Second) || late < -2*time.Second {
		t.Errorf("its clock is late by %v, %v", late, err)
	}
}

// goesOn wants the files and the running processes of a copy.
func goesOn(t *testing.T, i sandbox.Instance, state string) {
	t.Helper()
	got := run(t, i, "cat /root/state; until [ -e /tmp/count ]; do sleep 0.1; done; a=$(cat /tmp/count); until [ $(cat /tmp/count) -gt $a ]; do sleep 0.1; done; echo counts")
	if want := state + "\ncounts"; got != want {
		t.Errorf("%s: got %q, want %q", i.ID(), got, want)
	}
}

func endAll(t *testing.T, list []sandbox.Instance) {
	t.Helper()
	for _, i := range list {
		if err := i.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
		if exit, err := i.Wait(t.Context()); err != nil || exit.Cause != sandbox.Destroyed {
			t.Errorf("%+v, %v", exit, err)
		}
		if _, err := i.Dial(t.Context()); sandbox.ClassOf(err) != sandbox.NotFound {
			t.Errorf("a connection after the end: %v", err)
		}
	}
	if left := machinesLeft(t); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

// hasty is a monitor whose machine has just been stopped when the caller has had enough.
type hasty struct {
	vmm.Monitor
	enough func()
}

func (m hasty) Pause(ctx context.Context) error {
	err := m.Monitor.Pause(ctx)
	m.enough()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// TestNobodyWaitsForAStop: whoever is not waited for when a machine is stopped to be copied
// leaves it running.
func TestNobodyWaitsForAStop(t *testing.T) {
	suite.Need(t)
	opts := Options{Options: vmmtest.Options(t.TempDir())}
	system := systemOf(opts)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	system.Monitor = func(dial vmm.Dial) vmm.Monitor { return hasty{newMonitor(dial), cancel} }
	// A template would be stopped too, and so end the patience before there is a machine.
	system.Template = false
	d := vmm.New(system, opts.Options)
	defer d.Close(context.Background())
	i, err := d.Create(t.Context(), testSpec())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.(sandbox.Forker).Fork(ctx, make([]sandbox.Spec, 1)); err == nil || ctx.Err() == nil {
		t.Errorf("a fork that nobody waits for: %v, %v", err, ctx.Err())
	}
	run(t, i, "true")
	endAll(t, []sandbox.Instance{i})
}

// A guest that ends by itself is told of, with what its kernel said.
func TestGuestThatPanics(t *testing.T) {
	d := driverWith(t, func(*Options) {})
	i, err := d.Create(t.Context(), testSpec())
	if err != nil {
		t.Fatal(err)
	}
	client := guest.NewClient(i.Dial, guest.ClientOptions{})
	defer client.Close()
	// The answer may or may not come before the end.
	_, _ = client.Start(t.Context(), guest.Cmd{Path: "/bin/sh", Args: []string{"-c", "echo c > /proc/sysrq-trigger"}})
	ctx, cancel := context.WithTimeout(t.Context(), patience(t))
	defer cancel()
	exit, err := i.Wait(ctx)
	if err != nil || exit.Cause != sandbox.Crashed || !strings.Contains(exit.Detail, "panic") {
		t.Errorf("%+v, %v", exit, err)
	}
}
