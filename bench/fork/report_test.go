package fork

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// good is a report that meets every target exactly.
func good() Report {
	return Report{
		Driver: "cell",
		First:  []Row{{Name: rowFork, MedianUS: 2000, Parts: []Part{{"fork", 1500}}}, {Name: rowFresh, MedianUS: 100_000}},
		Pause:  []Row{{Name: rowFork, MedianUS: 1000}},
		Claim:  []Row{{Name: rowClaim, MedianUS: 150}},
		Crowds: []Crowd{{Children: 1000, Seconds: 3, EachKiB: 1228.8, TotalMiB: 1228.8}},
	}
}

func TestJudge(t *testing.T) {
	for _, v := range judge(good()) {
		if !v.Met || v.Open != "" || v.Spent != nil {
			t.Errorf("%+v", v)
		}
	}
}

func TestJudgeMisses(t *testing.T) {
	r := good()
	r.First[0].MedianUS, r.Pause[0].MedianUS, r.Claim[0].MedianUS = 2400, 1200, 180
	r.Crowds[0].Seconds, r.Crowds[0].TotalMiB = 3.6, 1500
	for _, v := range judge(r) {
		if v.Met || v.Open != "" || !strings.Contains(v.text(), "MISSED") {
			t.Errorf("%+v", v)
		}
	}
	if text := judge(r)[0].text(); !strings.Contains(text, "by 20%") || !strings.Contains(text, "fork 1500") {
		t.Error(text)
	}
}

func TestWhatIsNotMeasuredIsNotMet(t *testing.T) {
	for _, v := range judge(Report{}) {
		if v.Met || v.Open == "" || !strings.Contains(v.text(), "open") {
			t.Errorf("%+v", v)
		}
	}
	text, err := json.Marshal(Row{Name: "a", Skipped: "b"})
	if err != nil || string(text) != `{"name":"a","skipped":"b"}` {
		t.Errorf("%s, %v", text, err)
	}
}

func TestRows(t *testing.T) {
	var samples []sample
	for i := range 100 {
		d := time.Duration(i+1) * time.Millisecond
		samples = append(samples, sample{total: 2 * d, parts: []part{{"fork", d}}, pause: d / 2})
	}
	row := newRow("a", samples)
	if row.P10US != 20_000 || row.MedianUS != 100_000 || row.P99US != 198_000 || row.Samples != 100 || row.Parts[0].MedianUS != 50_000 {
		t.Errorf("%+v", row)
	}
	if p := pauses("a", samples); p.MedianUS != 25_000 {
		t.Errorf("%+v", p)
	}
	if p := pauses("a", []sample{{}}); p.Skipped == "" {
		t.Errorf("%+v", p)
	}
}

func TestWeigh(t *testing.T) {
	for _, c := range []struct {
		before, with, after int64
		total               float64
	}{
		{600 << 20, 1000 << 20, 600 << 20, 400},
		{600 << 20, 1000 << 20, 640 << 20, 380},
		{1100 << 20, 1000 << 20, 1100 << 20, 0},
		{600 << 20, 1000 << 20, 900 << 20, 0},
		{900 << 20, 1000 << 20, 600 << 20, 0},
	} {
		crowd := Crowd{Children: 100}
		if crowd.weigh(c.before, c.with, c.after); crowd.TotalMiB != c.total {
			t.Errorf("%+v weighs %v", c, crowd.TotalMiB)
		}
	}
}

func TestText(t *testing.T) {
	r := good()
	r.First = append(r.First, Row{Name: "b", Skipped: "not here"})
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
