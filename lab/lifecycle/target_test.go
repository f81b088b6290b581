package lifecycle

import (
	"math"
	"strings"
	"testing"

	"aether/lab"
)

// good is a report in which cell meets each target exactly.
func good() Report {
	parts := []lab.Part{{Name: "boot", Value: 100, Unit: lab.MedianUS}, {Name: "exec", Value: 50, Unit: lab.MedianUS}}
	return Report{
		Cold: []lab.Row{
			{Name: nameCell, MedianUS: 500, P99US: 2500, Parts: parts, TailParts: parts},
			{Name: nameBwrap, MedianUS: 2500}, {Name: nameCrun, MedianUS: 10000},
		},
		Exec:  []lab.Row{{Name: nameCell, MedianUS: 300, Parts: parts}, {Name: nameNear, MedianUS: 450, Parts: parts}},
		Idle:  []Footprint{{Name: nameCell, Live: 1000, EachKiB: 350, Parts: parts}},
		Churn: []Rate{{Name: nameCell, PerSecond: 1000, Parts: parts}, {Name: nameBwrap, PerSecond: 500}},
	}
}

func TestJudge(t *testing.T) {
	for _, v := range judge(good()) {
		if !v.Met || v.Open != "" || v.MissedBy != 0 || v.SpentOn != nil {
			t.Errorf("%+v", v)
		}
	}
}

func TestJudgeMisses(t *testing.T) {
	r := good()
	r.Cold[0].MedianUS, r.Cold[0].P99US = 600, 3000
	r.Exec[0].MedianUS, r.Exec[1].MedianUS = 360, 648
	r.Idle[0].EachKiB = 420
	r.Churn[0].PerSecond = 800
	for _, v := range judge(r) {
		if v.Met || math.Abs(v.MissedBy-0.2) > 1e-9 || len(v.SpentOn) != 2 {
			t.Errorf("%+v", v)
		}
		if text := v.Text(); !strings.Contains(text, "MISSED") || !strings.Contains(text, "20%") || !strings.Contains(text, "boot 100") {
			t.Errorf("%q", text)
		}
	}
}

// A figure that is not there must never look like success.
func TestJudgeLeavesOpen(t *testing.T) {
	r := good()
	r.Idle[0].Live = 999
	for name, r := range map[string]Report{"empty": {}, "few": r} {
		for i, v := range judge(r) {
			const idle = 5
			if wantOpen := name == "empty" || i == idle; wantOpen != (v.Open != "") || wantOpen && v.Met {
				t.Errorf("%s: %+v", name, v)
			}
		}
	}
}

func TestTextOfAnEmptyReport(t *testing.T) {
	r := Report{}
	r.Targets = judge(r)
	if r.Text() == "" {
		t.Error("nothing is said")
	}
}
