package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"aether/driver/aethervm"
	"aether/driver/guestagent"
	"aether/driver/guestagent/guestagenttest"
	"aether/engine"
	"aether/sandbox"
)

// TestAethervm is the program on machines of our own monitor, as users and agents have them. It
// runs wherever KVM is usable, and in the lab: go run ./cmd/kvmtest -driver aethervm -whole.
func TestAethervm(t *testing.T) {
	needs(t, "/dev/kvm")
	findMonitor(t)
	here := wantUsable(t, aethervm.Name)
	t.Run("run", func(t *testing.T) { runsInMachines(t, here) })
	t.Run("template", forksMachines)
	t.Run("agent", worksInMachines)
}

// findMonitor has the program find what it runs machines with.
func findMonitor(t *testing.T) {
	t.Helper()
	// What make build has built.
	built, err := filepath.Abs("../../bin/aether-vmm")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(built); err == nil && os.Getenv(aethervm.PathVariable) == "" {
		t.Setenv(aethervm.PathVariable, built)
	}
	if os.Getenv(guestagent.PathVariable) == "" {
		t.Setenv(guestagent.PathVariable, "") // for the time after the test
		if err := guestagenttest.Build(t.TempDir()); err != nil {
			t.Fatal(err)
		}
	}
}

// labImage is one that machines boot fast from, where the lab has such.
func labImage() string { return os.Getenv("AETHER_TEST_IMAGE") }

// machine are the flags of a small one.
func machine() []string {
	flags := []string{"--driver", aethervm.Name, "--memory", "160M"}
	if labImage() != "" {
		flags = append(flags, "--image", labImage())
	}
	return flags
}

// runsInMachines: whoever asks for hardware has our own monitor, also where QEMU could give it, and
// what a command says and how it ends are the command's own. here are the systems that can run.
func runsInMachines(t *testing.T, here map[string]sandbox.Boundary) {
	for _, other := range []string{"kata", "firecracker", "cloud-hypervisor"} {
		if _, can := here[other]; can {
			t.Skipf("%s is chosen before it", other)
		}
	}
	if labImage() != "" && here["qemu-kvm"] != sandbox.HardwareBoundary {
		t.Errorf("the lab has no QEMU for it to be chosen before, but %v", here)
	}
	want(t, run(t, "", "--isolation", "hardware", "--", "echo", "hello"), "hello\n", "", 0)
	got := run(t, "", "--isolation", "hardware", "--json", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
	var answer struct {
		Driver, Boundary string
		Exit             int
		Stdout, Stderr   struct{ Text string }
	}
	if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	chosen := answer.Driver == aethervm.Name && answer.Boundary == "hardware"
	if !chosen || answer.Exit != 7 || got.status != 7 || answer.Stdout.Text != "out\n" || answer.Stderr.Text != "err\n" {
		t.Errorf("%+v", got)
	}
}

// forksMachines: runs of a template are forks of a machine that stands still, each with what was
// prepared and nothing of another's. A pool hands out those that were made before and makes
// others, and the next daemon has the template with its memory.
func forksMachines(t *testing.T) {
	prepareTemplate(t, "machine", "x=$RANDOM$RANDOM; echo prepared > /tmp/x", append(machine(), "--ahead", "2", "--code", "bash", "-")...)
	ready := func() bool { p := shown(t).Pool; return p != nil && p.Ready == 2 }
	child := func() outcome {
		t.Helper()
		return run(t, "", "--template", "machine", "-c", "echo $x $(cat /tmp/x); x=other; echo other > /tmp/x")
	}
	var first outcome
	for i := range 3 {
		if !eventually(ready) {
			t.Fatalf("its pool is %+v", shown(t).Pool)
		}
		if i == 0 {
			first = child()
			continue
		}
		want(t, child(), first.stdout, "", 0)
	}
	was := shown(t)
	if first.status != 0 || !strings.HasSuffix(first.stdout, " prepared\n") || was.Driver != aethervm.Name || was.Fidelity != sandbox.Live || !was.Frozen {
		t.Errorf("it is %+v, and says %+v", was, first)
	}
	if p := was.Pool; p.Claimed != 3 || p.Direct != 0 {
		t.Errorf("its pool is %+v", p)
	}
	if err := endDaemon(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	want(t, child(), first.stdout, "", 0)
}

// shown is what the program knows of the template machine.
func shown(t *testing.T) (info engine.TemplateInfo) {
	t.Helper()
	got := command(t, "", "template", "show", "machine", "--json")
	if err := json.Unmarshal([]byte(got.stdout), &info); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	return info
}

// worksInMachines: what an agent's code has defined is there in the next call, in forks, after a
// pause and where it went back to; what it does in one of them is in no other.
func worksInMachines(t *testing.T) {
	s := speak(t, overStreams(aether(t, "mcp", "--daemon", "--profile", "full")), revisions[0])
	id := must(t, s, "sandbox_create", map[string]any{"driver": aethervm.Name, "memory_mb": 160, "image": labImage()}).Sandbox
	in := map[string]any{"sandbox": id}
	says := func(id, code, want string) {
		t.Helper()
		if got := must(t, s, "code_run", map[string]any{"sandbox": id, "language": "bash", "code": code}); got.Stdout.Text != want {
			t.Errorf("%s: %+v, not %q", code, got, want)
		}
	}
	says(id, "n=1", "")
	says(id, "n=$((n+1)); echo $n", "2\n")
	children := must(t, s, "sandbox_fork", map[string]any{"sandbox": id, "count": 2}).Sandboxes
	for _, child := range children {
		says(child.Sandbox, "n=$((n+10)); echo $n", "12\n")
	}
	snapshot := must(t, s, "snapshot_create", in).Snapshot
	says(id, "n=$((n+1)); echo $n", "3\n")
	must(t, s, "sandbox_pause", in)
	must(t, s, "sandbox_resume", in)
	says(id, "n=$((n+1)); echo $n", "4\n")
	must(t, s, "sandbox_rollback", map[string]any{"sandbox": id, "snapshot": snapshot})
	says(id, "echo $n", "2\n")
	for _, child := range children {
		says(child.Sandbox, "echo $n", "12\n")
	}
}
