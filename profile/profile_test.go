package profile

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"aether/sandbox"
)

func TestCoreScores(t *testing.T) {
	want := []string{
		"aethervm: fitness 0.86 (start 0.80, density 0.85, isolation 0.80, snapshot 0.90, agent-control 0.95)",
		"firecracker: fitness 0.79 (start 0.90, density 0.90, isolation 0.85, snapshot 0.80, agent-control 0.50)",
		"cloud-hypervisor: fitness 0.76 (start 0.85, density 0.80, isolation 0.85, snapshot 0.80, agent-control 0.50)",
		"gvisor: fitness 0.65 (start 0.85, density 0.85, isolation 0.60, snapshot 0.40, agent-control 0.55)",
		"kata: fitness 0.62 (start 0.65, density 0.60, isolation 0.85, snapshot 0.40, agent-control 0.60)",
		"qemu-kvm: fitness 0.61 (start 0.40, density 0.45, isolation 0.90, snapshot 0.85, agent-control 0.45)",
		"docker: fitness 0.65 (start 0.95, density 0.95, isolation 0.35, snapshot 0.40, agent-control 0.60)",
	}
	for i, p := range Profiles(Core()...) {
		if got := p.String(); got != want[i] {
			t.Errorf("got  %s\nwant %s", got, want[i])
		}
	}
}

func TestFieldScores(t *testing.T) {
	want := []string{
		"cell: fitness 0.82 (start 0.98, density 0.98, isolation 0.45, snapshot 0.80, agent-control 0.90)",
		"crun: fitness 0.61 (start 0.95, density 0.95, isolation 0.35, snapshot 0.40, agent-control 0.40)",
		"youki: fitness 0.60 (start 0.93, density 0.95, isolation 0.37, snapshot 0.35, agent-control 0.40)",
		"bubblewrap: fitness 0.54 (start 0.98, density 0.98, isolation 0.40, snapshot 0.05, agent-control 0.30)",
		"systemd-nspawn: fitness 0.57 (start 0.90, density 0.92, isolation 0.40, snapshot 0.25, agent-control 0.40)",
		"incus: fitness 0.66 (start 0.75, density 0.85, isolation 0.50, snapshot 0.60, agent-control 0.60)",
		"vz: fitness 0.65 (start 0.75, density 0.65, isolation 0.85, snapshot 0.60, agent-control 0.40)",
		"lima: fitness 0.49 (start 0.35, density 0.40, isolation 0.85, snapshot 0.35, agent-control 0.50)",
		"orbstack: fitness 0.59 (start 0.70, density 0.70, isolation 0.80, snapshot 0.30, agent-control 0.45)",
		"utm: fitness 0.47 (start 0.30, density 0.35, isolation 0.85, snapshot 0.50, agent-control 0.35)",
	}
	for i, p := range Profiles()[len(core):] {
		if got := p.String(); got != want[i] {
			t.Errorf("got  %s\nwant %s", got, want[i])
		}
	}
}

// The constants index the tables, so each must name its own row.
func TestConstantsNameTheirRows(t *testing.T) {
	want := map[System]string{
		AetherVM: "aethervm", Firecracker: "firecracker", CloudHypervisor: "cloud-hypervisor", GVisor: "gvisor",
		Kata: "kata", QEMU: "qemu-kvm", Docker: "docker", Cell: "cell", Crun: "crun", Youki: "youki",
		Bubblewrap: "bubblewrap", Nspawn: "systemd-nspawn", Incus: "incus", VZ: "vz", Lima: "lima",
		OrbStack: "orbstack", UTM: "utm",
	}
	if len(All()) != len(want) {
		t.Fatalf("%d systems, %d constants", len(All()), len(want))
	}
	for s, name := range want {
		if s.Name() != name {
			t.Errorf("constant %d is %s, want %s", int(s), s.Name(), name)
		}
	}
}

func TestScoresInRange(t *testing.T) {
	for _, p := range Profiles() {
		for _, a := range Axes() {
			if s := p.Score(a); s <= 0 || s > MaxScore {
				t.Errorf("%s: %s is %s", p.System, a, s)
			}
		}
		if f := p.Fitness.Float(); f <= 0 || f > 1 {
			t.Errorf("%s: fitness is %v", p.System, f)
		}
	}
}

func TestEvidence(t *testing.T) {
	seen := map[string]System{}
	for _, p := range Profiles() {
		for i, line := range p.Evidence {
			if len(line) < 40 || len(line) > 200 || strings.ContainsAny(line, "\n\t") || !strings.HasSuffix(line, ".") {
				t.Errorf("%s: the evidence for %s is no sentence of 40 to 200 bytes: %q", p.System, Axis(i), line)
			}
			if other, twice := seen[line]; twice {
				t.Errorf("%s and %s share the evidence %q", other, p.System, line)
			}
			seen[line] = p.System
		}
	}
}

func TestBoundaries(t *testing.T) {
	hardware := []System{AetherVM, Firecracker, CloudHypervisor, Kata, QEMU, VZ, Lima, OrbStack, UTM}
	for _, s := range All() {
		want := sandbox.ProcessBoundary
		switch {
		case slices.Contains(hardware, s):
			want = sandbox.HardwareBoundary
		case s == GVisor:
			want = sandbox.KernelBoundary
		}
		if s.Boundary() != want || s.Profile().Boundary != want {
			t.Errorf("%s: boundary is %s, want %s", s, s.Boundary(), want)
		}
	}
}

// A stronger boundary must show in the isolation score, or one of the two is wrong.
func TestIsolationFollowsBoundary(t *testing.T) {
	for _, a := range Profiles() {
		for _, b := range Profiles() {
			if a.Boundary > b.Boundary && a.Isolation <= b.Isolation {
				t.Errorf("%s (%s, %s) is not above %s (%s, %s)", a.System, a.Boundary, a.Isolation, b.System, b.Boundary, b.Isolation)
			}
		}
	}
}

func TestFieldNotes(t *testing.T) {
	want := map[System]FieldNotes{
		Firecracker: {5, 5, 4}, CloudHypervisor: {5, 5, 3}, GVisor: {4, 4, 4}, Kata: {5, 4, 2}, QEMU: {5, 4, 3},
		Crun: {3, 5, 4}, Youki: {3, 5, 4}, Bubblewrap: {3, 5, 5}, Nspawn: {3, 5, 5}, Incus: {3.5, 5, 4},
		VZ: {5, 5, 4}, Lima: {5, 4, 5}, OrbStack: {5, 5, 5}, UTM: {5, 4, 3},
	}
	for _, s := range All() {
		got := s.FieldNotes()
		notes, ok := want[s]
		if (got != nil) != ok || ok && *got != notes {
			t.Errorf("%s: field notes %v, want %v (%v)", s, got, notes, ok)
		}
	}
}

// A score that is given by design says so in its evidence, and no other does.
func TestEvidenceSaysWhatIsByDesign(t *testing.T) {
	for _, p := range Profiles() {
		for _, a := range Axes() {
			says := strings.Contains(strings.ToLower(p.Evidence[a]), "scored by design")
			if says != p.IsByDesign(a) {
				t.Errorf("%s: %s by design is %v, and its evidence is %q", p.System, a, p.IsByDesign(a), p.Evidence[a])
			}
		}
	}
	// What it costs on real hardware nobody has measured; what it does is tested.
	if got := AetherVM.Profile().ByDesign; !slices.Equal(got, []Axis{StartLatency, Density, AgentControl}) {
		t.Errorf("aethervm has scores by design on %v", got)
	}
}

// Callers may change what they are given; the table must not follow.
func TestAnswersAreCopies(t *testing.T) {
	Cell.Profile().ByDesign[0] = Density
	AetherVM.Aliases()[0] = "changed"
	*Firecracker.FieldNotes() = FieldNotes{}
	All()[0] = UTM
	if AetherVM.Aliases()[0] != "aether" || !Cell.Profile().IsByDesign(AgentControl) || *Firecracker.FieldNotes() != (FieldNotes{5, 5, 4}) || All()[0] != AetherVM {
		t.Error("a caller changed the table")
	}
}

func TestProfileJSON(t *testing.T) {
	got, err := json.Marshal(Docker.Profile())
	if err != nil {
		t.Fatal(err)
	}
	evidence, err := json.Marshal(Docker.Profile().Evidence)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"system":"docker","fitness":0.65,"start_latency":0.95,"density":0.95,"isolation":0.35,` +
		`"snapshotting":0.4,"agent_control":0.6,"boundary":"process","evidence":` + string(evidence) + `,"by_design":[]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
