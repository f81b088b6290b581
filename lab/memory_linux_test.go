package lab

import "testing"

func TestParseMemory(t *testing.T) {
	m, err := parseMemory("MemTotal:  24681472 kB\nMemAvailable:   24174592 kB\nHugePages_Total:       0\n\n")
	if err != nil || m[available] != 24174592 || m["MemTotal"] != 24681472 {
		t.Errorf("%v, %v", m, err)
	}
	for _, bad := range []string{"", "MemTotal: 1 kB\n", "MemAvailable: many kB\n"} {
		if _, err := parseMemory(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if _, err := ReadMemory(); err != nil {
		t.Error(err)
	}
}

func TestHeld(t *testing.T) {
	before := Memory{available: 10_000, "SUnreclaim": 100, "Percpu": 50}
	with := Memory{available: 5_000, "SUnreclaim": 1_300, "Percpu": 250}
	after := Memory{available: 9_000, "SUnreclaim": 300, "Percpu": 50}
	each, parts := Held(before, with, after, 10)
	if each != 450 {
		t.Errorf("each holds %v", each)
	}
	got := map[string]float64{}
	for _, p := range parts {
		got[p.Name] = p.Value
	}
	if got["slab"] != 110 || got["per-cpu"] != 20 || got["tmpfs"] != 0 {
		t.Errorf("got %v", got)
	}
}
