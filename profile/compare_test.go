package profile

import (
	"encoding/json"
	"strings"
	"testing"
)

// The judgments that the scores must express, whatever their exact figures.
func TestDirections(t *testing.T) {
	for _, c := range []struct {
		axis          Axis
		better, worse System
		strict        bool
	}{
		{StartLatency, Firecracker, QEMU, true},
		{Isolation, QEMU, Docker, true},
		{Density, Docker, QEMU, true},
		{AgentControl, AetherVM, Firecracker, true},
		{Isolation, Firecracker, GVisor, true},
		{Snapshotting, AetherVM, QEMU, false},
	} {
		delta := Compare(c.better, c.worse).AxisDeltas[c.axis].Delta
		if delta < 0 || c.strict && delta == 0 {
			t.Errorf("%s against %s on %s is %s", c.better, c.worse, c.axis, delta.Signed())
		}
	}
}

func TestDeltasMeanIsFitnessDelta(t *testing.T) {
	for _, a := range All() {
		for _, b := range All() {
			c := Compare(a, b)
			var sum Score
			for i, d := range c.AxisDeltas {
				if d.Axis != Axis(i) {
					t.Fatalf("%s against %s: %s is at place %d", a, b, d.Axis, i)
				}
				sum += d.Delta
			}
			// The mean of five hundredths, counted in five-hundredths, is their sum.
			if Fitness(sum) != c.FitnessDelta {
				t.Errorf("%s against %s: the deltas' mean is %v, the fitness delta %v", a, b, Fitness(sum), c.FitnessDelta)
			}
			if c.FitnessDelta != -Compare(b, a).FitnessDelta {
				t.Errorf("%s against %s is not the opposite of the reverse", a, b)
			}
		}
	}
}

func TestComparisonString(t *testing.T) {
	want := `aethervm vs firecracker: fitness delta +0.07
  start-latency: -0.10
  density: -0.05
  isolation: -0.05
  snapshotting: +0.10
  agent-control: +0.45`
	if got := Compare(AetherVM, Firecracker).String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestNoNegativeZero(t *testing.T) {
	for _, a := range All() {
		for _, b := range All() {
			if s := Compare(a, b).String(); strings.Contains(s, "-0.00") {
				t.Errorf("%s", s)
			}
		}
	}
}

func TestComparisonJSON(t *testing.T) {
	got, err := json.Marshal(Compare(Firecracker, AetherVM))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"a":"firecracker","b":"aethervm","fitness_delta":-0.07,"axis_deltas":[` +
		`{"axis":"start-latency","delta":0.1},{"axis":"density","delta":0.05},{"axis":"isolation","delta":0.05},` +
		`{"axis":"snapshotting","delta":-0.1},{"axis":"agent-control","delta":-0.45}]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRendering(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Score(0).String(), "0.00"}, {Score(5).String(), "0.05"}, {MaxScore.String(), "1.00"}, {Score(-7).String(), "-0.07"},
		{Score(0).Signed(), "+0.00"}, {Score(-45).Signed(), "-0.45"}, {Score(45).Signed(), "+0.45"},
		{Fitness(411).String(), "0.82"}, {Fitness(413).String(), "0.83"}, {Fitness(500).String(), "1.00"},
		{Fitness(-2).Signed(), "+0.00"}, {Fitness(2).Signed(), "+0.00"}, {Fitness(-3).Signed(), "-0.01"}, {Fitness(-411).Signed(), "-0.82"},
		{string(number(Fitness(411).Float())), "0.822"}, {string(number(Score(80).Float())), "0.8"}, {string(number(0)), "0"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}
