package network

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"aether/lab"
	"aether/network/networktest"
	"aether/sandbox"
)

// TestMeasure runs the whole benchmark, as small as it gets.
func TestMeasure(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds programs")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go tool in PATH")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := networktest.Build(dir); err != nil {
		t.Fatal(err)
	}
	r, err := Measure(t.Context(), Options{Rounds: 1, Idle: 2}, lab.NewProgress(nil))
	if sandbox.ClassOf(err) == sandbox.Unavailable {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, rows := range [][]Rate{r.Send, r.Receive, r.Requests} {
		if len(rows) != 5 || rows[0].Median <= 0 {
			t.Errorf("%+v", rows)
		}
	}
	for _, rows := range [][]lab.Row{r.Connect, r.Create} {
		if len(rows) != 5 || rows[0].MedianUS <= 0 {
			t.Errorf("%+v", rows)
		}
	}
	if len(r.Idle) != 2 || r.Process.OneKiB <= 0 || r.Process.AllKiB <= 0 || r.Process.Alive != 3 {
		t.Errorf("%+v, %+v", r.Idle, r.Process)
	}
	t.Log("\n" + r.Text())
}

func TestTargets(t *testing.T) {
	stream := func(gbit float64) []Rate {
		return rates([]lab.Row{{Name: rowCell, MedianUS: 1e6 / gbit}, {Name: rowSlirp, MedianUS: 1e6 / 5}, {Name: rowVeth, MedianUS: 1e6 / 40.1}})
	}
	row := func(name string, us float64) lab.Row { return lab.Row{Name: name, MedianUS: us} }
	report := func(gbit, connect, create, idle float64) Report {
		r := Report{Send: stream(gbit), Receive: stream(gbit), Connect: []lab.Row{row(rowCell, connect), row(rowVeth, 500)},
			Create: []lab.Row{row(rowWarm, 400), row(rowWarmEgress, create), row(rowBwrap, 3000)},
			Idle:   []Footprint{{Name: rowWarm, EachKiB: 300, Live: 100}, {Name: rowWarmEgress, EachKiB: idle, Live: 100}}}
		r.complete()
		return r
	}
	for _, v := range report(6.1, 999, 999, 499).Targets {
		if !v.Met {
			t.Errorf("%+v", v)
		}
	}
	missed := report(5.9, 1001, 1001, 501)
	for _, v := range missed.Targets {
		if v.Met {
			t.Errorf("%+v", v)
		}
	}
	if text := missed.Text(); strings.Count(text, "MISSED") != len(missed.Targets) {
		t.Error(text)
	}
	var none Report
	none.complete()
	for _, v := range none.Targets {
		if v.Open == "" {
			t.Errorf("%+v", v)
		}
	}
}
