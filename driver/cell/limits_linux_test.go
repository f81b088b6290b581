package cell_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/guest"
	"aether/sandbox"
)

// hungry is a command that takes memory until it is stopped.
var hungry = guest.Cmd{Path: "tail", Args: []string{"/dev/zero"}}

func TestMemoryLimit(t *testing.T) {
	needRoot(t, "cgroups to limit memory by")
	instance := newCell(t, sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: 32 << 20}})
	bystander := start(t, instance, "exec sleep 1000")
	name := fmt.Sprintf("cat /proc/%d/comm", bystander.Pid())
	if !eventually(10*time.Second, func() bool { return sh(t, instance, name) == "sleep" }) {
		t.Fatal("the bystander does not sleep")
	}
	got, err := try(t.Context(), client(t, instance), hungry)
	if err != nil || got.Signal != syscall.SIGKILL || !got.OutOfMemory {
		t.Errorf("%+v, %v", got.Status, err)
	}
	if got, err := try(t.Context(), client(t, instance), shell("kill -KILL $$")); err != nil || got.OutOfMemory {
		t.Errorf("a command that was killed later is said to be out of memory: %+v, %v", got.Status, err)
	}
	stats, err := instance.Stats(t.Context())
	if err != nil || stats.MemoryPeakBytes == nil || *stats.MemoryPeakBytes > 32<<20 {
		t.Errorf("%+v, %v", stats, err)
	}
	if err := bystander.Signal(t.Context(), 0); sandbox.ClassOf(err) == sandbox.NotFound {
		t.Error("the kernel chose another command")
	}
}

func TestMemoryOfFilesCounts(t *testing.T) {
	needRoot(t, "cgroups to limit memory by")
	instance := newCell(t, sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: 32 << 20}})
	got, err := try(t.Context(), client(t, instance), shell("exec head -c 256M /dev/zero > /tmp/file"))
	if err != nil || !got.OutOfMemory {
		t.Errorf("%+v, %v: files take memory that is not the cell's", got, err)
	}
	// No command has room to start now; the service outside still can help.
	if err := client(t, instance).Remove(t.Context(), "/tmp/file"); err != nil {
		t.Fatal(err)
	}
	sh(t, instance, "true")
}

// needBoundedProcesses skips where such a limit is refused.
func needBoundedProcesses(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 && ordinary() {
		t.Skip("a root without rights has no limit on processes: see TestProcessesAreBoundedOrRefused")
	}
}

// TestProcessesAreBoundedOrRefused: whoever asks for a limit has it, or is told why
// not. The kernel exempts the host's user 0, which a root without rights gives to its
// cells, from the resource limit.
func TestProcessesAreBoundedOrRefused(t *testing.T) {
	driver, _ := newDriver(t)
	instance, err := driver.Create(t.Context(), sandbox.Spec{Limits: sandbox.Limits{Processes: 20}})
	var refusal *sandbox.Error
	if errors.As(err, &refusal) && refusal.Class == sandbox.Unavailable && refusal.Field == "limits.processes" && refusal.Remedy != "" {
		if os.Geteuid() != 0 || !ordinary() {
			t.Errorf("only a root without rights is refused: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer destroy(t, instance)
	got, err := try(t.Context(), client(t, instance), shell("i=0; while [ $i -lt 30 ]; do sleep 100 >/dev/null 2>&1 & i=$((i+1)); done; echo $i"))
	if err != nil || got.stdout == "30\n" {
		t.Errorf("30 processes of 20: %+v, %v", got, err)
	}
}

func TestForkBombIsBounded(t *testing.T) {
	needBoundedProcesses(t)
	const most = 40
	instance := newCell(t, sandbox.Spec{Limits: sandbox.Limits{Processes: most}})
	// Some of it stays, so that whoever looks seldom sees how much there was.
	bomb := start(t, instance, "b() { sleep 1000 & b | b & wait; }; while true; do b; done")
	peak := 0
	sample := func() bool {
		// Who brought the bomb in is dead, outside of the cell, and reaped in a moment.
		living := slices.DeleteFunc(descendants(t, os.Getpid()), peer.Ended)
		peak = max(peak, len(living))
		return peak >= most/2
	}
	eventually(20*time.Second, sample) // on a busy host it grows slowly
	for range 50 {
		sample()
		time.Sleep(10 * time.Millisecond)
	}
	if peak > most+1 || peak < most/2 { // an ordinary user's PID 1 is not counted
		t.Errorf("the bomb had %d processes, want about %d", peak, most)
	}
	began := time.Now()
	destroy(t, instance)
	if took := time.Since(began); took > patience(5*time.Second) {
		t.Errorf("its end took %v", took)
	}
	if !cutOff(bomb) {
		t.Error("the bomb ended by itself")
	}
}

func TestForkBeyondTheLimitIsReported(t *testing.T) {
	needBoundedProcesses(t)
	instance := newCell(t, sandbox.Spec{Limits: sandbox.Limits{Processes: 8}})
	got, err := try(t.Context(), client(t, instance), shell("for i in 1 2 3 4 5 6 7 8 9; do sleep 100 >/dev/null 2>&1 & done; exit 0"))
	if err != nil || !strings.Contains(strings.ToLower(got.stderr), "fork") {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCPULimit(t *testing.T) {
	needRoot(t, "cgroups to limit CPU time by")
	const share = 0.25
	instance := newCell(t, sandbox.Spec{Limits: sandbox.Limits{CPUs: share}})
	for range 2 {
		start(t, instance, "while true; do :; done")
	}
	// A busy host may give less than the share, and let this program wait between its looks
	// at the clock and at the cell. What the host itself was not given may count as used by
	// who had the processor: that is made up for later, but not within one look.
	first, got := cpuTime(t, instance), 1.0
	for range 10 {
		began := time.Now()
		before := cpuTime(t, instance)
		time.Sleep(time.Second)
		used := cpuTime(t, instance) - before
		if got = used.Seconds() / time.Since(began).Seconds(); got <= share*1.4 {
			break
		}
	}
	if got > share*1.4 {
		t.Errorf("it had %.2f of a CPU, want %.2f", got, share)
	}
	if !eventually(20*time.Second, func() bool { return cpuTime(t, instance) > first }) {
		t.Error("it had nothing of any CPU")
	}
}

func cpuTime(t *testing.T, instance sandbox.Instance) time.Duration {
	t.Helper()
	stats, err := instance.Stats(t.Context())
	if err != nil || stats.CPUTime == nil {
		t.Fatalf("%+v, %v", stats, err)
	}
	return *stats.CPUTime
}

func TestDiskLimit(t *testing.T) {
	driver, _ := newDriver(t)
	for name, script := range map[string]string{
		"own layer":     "cd /home/user; head -c 8M /dev/zero > file",
		"tmp":           "head -c 8M /dev/zero > /tmp/file",
		"shared memory": "head -c 8M /dev/zero > /dev/shm/file",
		"inodes":        "cd /tmp; i=0; while [ $i -lt 20000 ]; do : > $i || exit 1; i=$((i + 1)); done",
	} {
		t.Run(name, func(t *testing.T) {
			instance := create(t, driver, sandbox.Spec{Limits: sandbox.Limits{DiskBytes: 1 << 20}})
			got, err := try(t.Context(), client(t, instance), shell(script))
			if err != nil || got.Code == 0 || !strings.Contains(got.stderr, "No space left") && !strings.Contains(got.stderr, "annot create") {
				t.Errorf("%+v, %v", got, err)
			}
			sh(t, instance, "rm -rf /tmp/* /dev/shm/* /home/user/*; echo small > /tmp/again")
		})
	}
}

func TestUploadToAFullDiskIsExhausted(t *testing.T) {
	instance := newCell(t, sandbox.Spec{Limits: sandbox.Limits{DiskBytes: 1 << 20}})
	err := client(t, instance).Write(context.Background(), "/tmp/file", strings.NewReader(strings.Repeat("x", 4<<20)))
	wantClass(t, err, sandbox.Exhausted, "")
	if got := sh(t, instance, "ls /tmp"); got != "" {
		t.Errorf("%q is left of it", got)
	}
}
