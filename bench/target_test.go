package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// good is a report in which cell meets each target exactly.
func good() report {
	parts := []part{{"boot", 100}, {"exec", 50}}
	return report{
		Cold: []latency{
			{System: nameCell, MedianUS: 500, P99US: 2500, Parts: parts, TailParts: parts},
			{System: nameBwrap, MedianUS: 2500}, {System: nameCrun, MedianUS: 10000},
		},
		Exec:  []latency{{System: nameCell, MedianUS: 300, Parts: parts}},
		Idle:  []footprint{{System: nameCell, Live: 1000, EachKiB: 350, Parts: parts}},
		Churn: []rate{{System: nameCell, PerSecond: 900, Parts: parts}, {System: nameBwrap, PerSecond: 500}},
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
	r.Exec[0].MedianUS = 360
	r.Idle[0].EachKiB = 420
	r.Churn[0].PerSecond = 720
	for _, v := range judge(r) {
		if v.Met || math.Abs(v.MissedBy-0.2) > 1e-9 || len(v.SpentOn) != 2 {
			t.Errorf("%+v", v)
		}
		if text := v.text(); !strings.Contains(text, "MISSED") || !strings.Contains(text, "20%") || !strings.Contains(text, "boot 100") {
			t.Errorf("%q", text)
		}
	}
}

// A figure that is not there must never look like success.
func TestJudgeLeavesOpen(t *testing.T) {
	r := good()
	r.Idle[0].Live = 999
	for name, r := range map[string]report{"empty": {}, "few": r} {
		for i, v := range judge(r) {
			const idle = 4
			if wantOpen := name == "empty" || i == idle; wantOpen != (v.Open != "") || wantOpen && v.Met {
				t.Errorf("%s: %+v", name, v)
			}
		}
	}
}

func TestCompare(t *testing.T) {
	rows := []latency{{System: nameCell, MedianUS: 1}, {System: nameBwrap, MedianUS: 4}}
	compare(rows, func(l latency) (string, float64) { return l.System, l.MedianUS }, func(l *latency) *ratios { return &l.ratios })
	if rows[0].OfBwrap != 0.25 || rows[1].OfBwrap != 1 || rows[0].OfCrun != 0 {
		t.Errorf("%+v", rows)
	}
	text, err := json.Marshal(rows[0])
	if err != nil || !strings.Contains(string(text), `"of_bwrap":0.25`) || strings.Contains(string(text), "of_crun") {
		t.Errorf("%s, %v", text, err)
	}
}
