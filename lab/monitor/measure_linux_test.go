package monitor

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"aether/driver/aethervm"
	"aether/driver/firecracker"
	"aether/driver/vmm"
	"aether/driver/vmm/vmmtest"
	"aether/lab"
)

// What the lab for KVM says: the program of the peer, and how much is measured.
const (
	peerVariable     = "AETHER_TEST_BINARY"
	roundsVariable   = "AETHER_TEST_ROUNDS"
	childrenVariable = "AETHER_TEST_CHILDREN"
	crowdsVariable   = "AETHER_TEST_CROWDS"
)

// TestBeside measures aethervm beside Firecracker. It is run in the lab: make kvm-bench
// BINARY=PATH.
func TestBeside(t *testing.T) {
	peer := os.Getenv(peerVariable)
	if peer == "" {
		t.Skip("no Firecracker was named: make kvm-bench BINARY=PATH")
	}
	opts := prepare(t)
	opts.Cold = system(t, aethervm.Name, "", func(o vmm.Options) *vmm.Driver {
		o.Cold = true
		return aethervm.New(o)
	})
	r, err := Measure(t.Context(), system(t, aethervm.Name, "", aethervm.New), system(t, firecracker.Name, peer, firecracker.New), opts)
	os.Stdout.WriteString("\n" + r.Text())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("kvmtest: report %s\n", text) // for the lab, which keeps it
}

// TestCrowds forks one machine into many, as often as the lab says: go run ./cmd/kvmtest
// -crowds 20. All of them must answer, in every crowd.
func TestCrowds(t *testing.T) {
	if number(t, crowdsVariable) == 0 {
		t.Skip("nobody asked for crowds: go run ./cmd/kvmtest -crowds 1")
	}
	opts := prepare(t)
	list, err := Crowds(t.Context(), system(t, aethervm.Name, "", aethervm.New), opts)
	if len(list) > 0 {
		os.Stdout.WriteString("\n" + CrowdTable(list) + lab.Verdicts(JudgeCrowds(list)))
	}
	if err != nil || len(list) != opts.Crowds {
		t.Fatalf("%d of %d crowds: %v", len(list), opts.Crowds, err)
	}
}

// prepare makes what drivers of machines need.
func prepare(t *testing.T) Options {
	t.Helper()
	if err := vmmtest.Prepare(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	return Options{Image: vmmtest.Image(), MemoryBytes: 160 << 20, Dir: t.TempDir(), Progress: lab.NewProgress(os.Stdout),
		Rounds: number(t, roundsVariable), Children: number(t, childrenVariable), Crowds: number(t, crowdsVariable)}
}

func system(t *testing.T, name, program string, make func(vmm.Options) *vmm.Driver) lab.System {
	t.Helper()
	make = with(program, make)
	vmmtest.Suite{New: make}.Need(t)
	d := make(vmmtest.Options(t.TempDir()))
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return lab.System{Name: name, Driver: d}
}

// with has a driver use a program, whatever other one the tests were given.
func with(program string, make func(vmm.Options) *vmm.Driver) func(vmm.Options) *vmm.Driver {
	return func(o vmm.Options) *vmm.Driver {
		o.Program = program
		return make(o)
	}
}

func number(t *testing.T, variable string) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

func TestParseWeight(t *testing.T) {
	const mappings = `7f0000000000-7f0000a00000 rw-p 00000000 00:01 1030                       /memfd:memory (deleted)
Size:              10240 kB
Pss:                 300 kB
Shared_Clean:       9000 kB
Private_Clean:        20 kB
Private_Dirty:       180 kB
VmFlags: rd wr mr mw
7f0000a00000-7f0000b00000 rw-p 00000000 00:01 1031                       /x/saved/memory
Pss:                  40 kB
Private_Dirty:        10 kB
7f0001000000-7f0001a00000 rw-p 00000000 00:00 0
Pss:                1000 kB
Private_Dirty:      1000 kB
00400000-00500000 r-xp 00000000 fe:00 77                                 /memory/program
Pss:                  64 kB
`
	w, err := parseWeight(strings.NewReader(mappings))
	if err != nil || w.GuestKiB != 340 || w.OwnKiB != 210 || w.MonitorKiB != 1064 {
		t.Errorf("%+v, %v", w, err)
	}
	if _, err := parseWeight(strings.NewReader("Pss: many kB\n")); err == nil {
		t.Error("a figure that is none is taken")
	}
	own, err := readWeight(os.Getpid())
	if err != nil || own.MonitorKiB < 1024 || own.GuestKiB != 0 {
		t.Errorf("of this process: %+v, %v", own, err)
	}
}

// TestTargets: each is about the rows of both systems, and is missed by a figure above it.
func TestTargets(t *testing.T) {
	report := func(share float64, crowd Crowd) Report {
		r := Report{Circumstances: lab.Circumstances{Driver: "a"}, Peer: "b", Crowds: []Crowd{crowd}}
		rows := func(ours, theirs string) []lab.Row {
			return []lab.Row{{Name: "a" + ours, MedianUS: share * 1000}, {Name: "b" + theirs, MedianUS: 1000}}
		}
		r.Boot, r.Copy, r.Snapshot = append(rows(create, boot), rows(boot, boot)...), rows(fork, load), rows(snapshot, snapshot)
		r.Still = append(rows(fork+freeze, fork+freeze), rows(fork+commands, fork+commands)...)
		return r
	}
	light, heavy := Crowd{Children: targetChildren, Replied: Weight{GuestKiB: 500, MonitorKiB: 500}}, Crowd{Children: targetChildren, Replied: Weight{GuestKiB: 900, MonitorKiB: 5000}}
	for _, v := range report(0.04, light).judge() {
		if !v.Met {
			t.Errorf("%+v", v)
		}
	}
	for _, v := range report(0.9, heavy).judge() {
		if v.Met || v.Open != "" || v.MissedBy <= 0 || math.IsInf(v.MissedBy, 0) {
			t.Errorf("%+v", v)
		}
	}
	r := report(0.9, Crowd{Children: 3})
	if r.Targets = r.judge(); r.Targets[len(r.Targets)-1].Open == "" {
		t.Errorf("%+v", r.Targets)
	}
	for _, part := range []string{"MISSED  boot, to the first byte of a command: 0.9 of b, boot, target 0.8", "a, fork, its processors", "Children of a by one call"} {
		if text := r.Text(); !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}
