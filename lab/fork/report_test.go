package fork

import (
	"strings"
	"testing"

	"aether/lab"
)

// good is a report that meets every target exactly.
func good() Report {
	return Report{
		Circumstances: lab.Circumstances{Driver: "cell"},
		First:         []lab.Row{{Name: rowFork, MedianUS: 2000, Parts: []lab.Part{{Name: "fork", Value: 1500, Unit: lab.MedianUS}}}, {Name: rowFresh, MedianUS: 100_000}},
		Pause:         []lab.Row{{Name: rowFork, MedianUS: 1000}},
		Claim:         []lab.Row{{Name: rowClaim, MedianUS: 150}},
		Busy:          []lab.Row{{Name: rowFork, MedianUS: 3000, P99US: 9000}, {Name: rowZygote, MedianUS: 2000, P99US: 3000}},
		Crowds:        []Crowd{{Children: 1000, Seconds: 3, EachKiB: 1228.8, TotalMiB: 1228.8, NextUS: 1300}, {Children: 1, NextUS: 1000}},
	}
}

func TestJudge(t *testing.T) {
	for _, v := range judge(good()) {
		if !v.Met || v.Open != "" || v.SpentOn != nil {
			t.Errorf("%+v", v)
		}
	}
}

func TestJudgeMisses(t *testing.T) {
	r := good()
	r.First[0].MedianUS, r.Pause[0].MedianUS, r.Claim[0].MedianUS = 2400, 1200, 180
	r.Crowds[0].Seconds, r.Crowds[0].TotalMiB, r.Crowds[0].NextUS = 3.6, 1500, 1400
	r.Busy[0].MedianUS, r.Busy[0].P99US = 3100, 9100
	for _, v := range judge(r) {
		if v.Met || v.Open != "" || !strings.Contains(v.Text(), "MISSED") {
			t.Errorf("%+v", v)
		}
	}
	if text := judge(r)[0].Text(); !strings.Contains(text, "by 20%") || !strings.Contains(text, "fork 1500") {
		t.Error(text)
	}
}

func TestWhatIsNotMeasuredIsNotMet(t *testing.T) {
	for _, v := range judge(Report{}) {
		if v.Met || v.Open == "" || !strings.Contains(v.Text(), "open") {
			t.Errorf("%+v", v)
		}
	}
}

func TestWeigh(t *testing.T) {
	for _, c := range []struct {
		before, with, after int64
		total               float64
	}{
		{600 << 10, 1000 << 10, 600 << 10, 400},
		{600 << 10, 1000 << 10, 640 << 10, 380},
		{1100 << 10, 1000 << 10, 1100 << 10, 0},
		{600 << 10, 1000 << 10, 900 << 10, 0},
		{900 << 10, 1000 << 10, 600 << 10, 0},
	} {
		crowd := Crowd{Children: 100}
		if crowd.weigh(c.before, c.with, c.after); crowd.TotalMiB != c.total {
			t.Errorf("%+v weighs %v", c, crowd.TotalMiB)
		}
	}
}

func TestText(t *testing.T) {
	r := good()
	r.First = append(r.First, lab.Row{Name: "b", Skipped: "not here"})
	r.Crowds = append(r.Crowds, Crowd{Children: 1, Seconds: 0.1}, Crowd{Children: 7, Skipped: "too many"})
	r.Targets = judge(r)
	for _, want := range []string{"Forks by cell", "skipped: not here", "2.000", "skipped: too many", "1229", "met ", "     -"} {
		if !strings.Contains(r.Text(), want) {
			t.Errorf("%q is not in\n%s", want, r.Text())
		}
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{Rounds: -1}, {Children: maxCount + 1}} {
		if o.Validate() == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
