package profile

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"aether/sandbox"
)

func TestParseWeights(t *testing.T) {
	got, err := ParseWeights("Isolation=3, start_latency = 0,snapshot=.5")
	want := Weights{Isolation: 3, StartLatency: 0, Snapshotting: 0.5}
	if err != nil || len(got) != len(want) {
		t.Fatalf("got %v, %v", got, err)
	}
	for a, v := range want {
		if got[a] != v {
			t.Errorf("%s: got %v, want %v", a, got[a], v)
		}
	}
}

func TestBadWeights(t *testing.T) {
	for input, says := range map[string]string{
		"":                    "not AXIS=NUMBER",
		"isolation":           "not AXIS=NUMBER",
		"isolation=3,":        "not AXIS=NUMBER",
		"isolation=":          "not a number",
		"isolation=much":      "not a number",
		"isolation=1e999":     "not a number",
		"isolation=-1":        "-1 of isolation is not a finite number",
		"isolation=NaN":       "NaN of isolation is not a finite number",
		"isolation=Inf":       "+Inf of isolation is not a finite number",
		"density=1,DENSITY=2": "density is weighted twice",
		"speed=3":             `"speed" is not known`,
		"fitness=3":           `"fitness" is not known`,
		"start=0,density=0,isolation=0,snapshot=0,agent-control=0": "every axis weighs 0",
	} {
		_, err := ParseWeights(input)
		checkInvalid(t, input, err, "weight", says)
	}
}

func TestParseNeed(t *testing.T) {
	for input, want := range map[string]Need{
		"isolation>=0.8":     {By(Isolation), AtLeast, 0.8},
		"Isolation > .8":     {By(Isolation), MoreThan, 0.8},
		" start<=1":          {By(StartLatency), AtMost, 1},
		"agent_control<0.5 ": {By(AgentControl), LessThan, 0.5},
		"fitness=0.86":       {ByFitness, Equal, 0.86},
	} {
		if got, err := ParseNeed(input); err != nil || got != want {
			t.Errorf("ParseNeed(%q) = %v, %v, want %v", input, got, err, want)
		}
	}
}

func TestBadNeeds(t *testing.T) {
	for input, says := range map[string]string{
		"":                "compares nothing",
		"isolation":       "compares nothing",
		"isolation>=":     "not a number from 0 to 1",
		"isolation>=high": "not a number from 0 to 1",
		"isolation>=1.1":  "not a number from 0 to 1",
		"isolation>=-0.1": "not a number from 0 to 1",
		"isolation>=NaN":  "not a number from 0 to 1",
		"isolation==0.8":  "not a number from 0 to 1",
		"isolation=>0.8":  "not a number from 0 to 1",
		"speed>=0.8":      `"speed" is not known`,
		">=0.8":           `"" is not known`,
	} {
		_, err := ParseNeed(input)
		checkInvalid(t, input, err, "need", says)
	}
}

func checkInvalid(t *testing.T, input string, err error, field, says string) {
	t.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Class != sandbox.Invalid || e.Field != field || !strings.Contains(err.Error(), says) {
		t.Errorf("%q: got %v, want an Invalid %s that says %q", input, err, field, says)
	}
}

// The scores' own decimals must be met exactly: 0.9 is a value that floats miss.
func TestNeedsAreExact(t *testing.T) {
	for _, c := range []struct {
		need string
		want []System
	}{
		{"isolation>=0.9", []System{QEMU}},
		{"isolation>0.9", nil},
		{"isolation=0.90", []System{QEMU}},
		{"fitness>=0.822", []System{AetherVM, Cell}},
		{"fitness>0.822", []System{AetherVM}},
		{"snapshotting<=0.05", []System{Bubblewrap}},
		{"snapshotting<0.05", nil},
	} {
		n, err := ParseNeed(c.need)
		if err != nil {
			t.Fatal(err)
		}
		if got := systemsOf(Meeting([]Need{n}, Profiles())); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.need, got, c.want)
		}
	}
}

func TestEveryNeedCounts(t *testing.T) {
	needs := []Need{{By(Isolation), AtLeast, 0.8}, {By(StartLatency), AtLeast, 0.8}}
	want := []System{AetherVM, Firecracker, CloudHypervisor}
	if got := systemsOf(Meeting(needs, Profiles())); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Meeting(nil, Profiles()); len(got) != len(All()) {
		t.Errorf("no need leaves %d systems", len(got))
	}
}
