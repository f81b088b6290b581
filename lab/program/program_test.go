package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aether/lab"
)

func TestReadInit(t *testing.T) {
	s, err := readInit("init internal/bytealg @0.008 ms, 0.25 ms clock, 0 bytes, 0 allocs\nsomething else\n" +
		"init aether/cli @2.1 ms, 0.5 ms clock, 5184 bytes, 3 allocs\n")
	if err != nil || lab.Micros(s.First) != 750 || len(s.Laps) != 2 || s.Laps[1].Name != "aether/cli" {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range []string{"", "init x\n", "init x @1 ms, many ms clock\n"} {
		if _, err := readInit(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestReadTimes(t *testing.T) {
	for text, want := range map[string]string{
		`{"times":{"created_ms":4,"exit_ms":6}}`:               "sandbox 4000, command 2000, the program's start and end 4000",
		`{"times":{"fork_ms":1,"created_ms":4,"exit_ms":6.5}}`: "fork 1000, way to it 3000, command 2500, the program's start and end 3500",
	} {
		laps, err := readTimes(ran{took: 10e6, stdout: text})
		row := lab.NewRow("", []lab.Sample{{First: 10e6, Laps: laps}})
		if got := lab.Dearest(row.Parts); err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "{}", `{"times":{"created_ms":4,"exit_ms":3}}`} {
		if _, err := readTimes(ran{stdout: bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestTargets: those that are met exactly are met, and what a miss is spent on is
// told.
func TestTargets(t *testing.T) {
	rows := []lab.Row{{Name: rowEmpty, MedianUS: 1000}, {Name: rowVersion, MedianUS: 1800}, {Name: rowBwrap, MedianUS: 5000},
		{Name: rowRun, MedianUS: 10_000}, {Name: rowInit, MedianUS: 9, Parts: []lab.Part{{Name: "cheap", Value: 1}, {Name: "dear", Value: 8}}}}
	for _, v := range newReport(rows).Targets {
		if !v.Met {
			t.Errorf("%+v", v)
		}
	}
	rows[1].MedianUS, rows[3].MedianUS = 3600, 20_000
	r := newReport(rows)
	for _, v := range r.Targets {
		if v.Met || v.MissedBy != 1 {
			t.Errorf("%+v", v)
		}
	}
	if text := r.Text(); !strings.Contains(text, "spent on dear 8, cheap 1") {
		t.Error(text)
	}
	for _, v := range newReport(nil).Targets {
		if v.Open == "" {
			t.Errorf("%+v", v)
		}
	}
}

// TestMeasure runs the whole benchmark, as small as it gets, with a program that it
// builds.
func TestMeasure(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the program")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go tool in PATH")
	}
	program := filepath.Join(t.TempDir(), "aether")
	build := exec.Command("go", "build", "-o", program, "aether/cmd/aether")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command(program, "run", "--", "true").CombinedOutput(); err != nil {
		t.Skipf("no command runs in a sandbox here: %s", out)
	}
	r, err := Measure(t.Context(), Options{Rounds: 1, Program: program}, lab.NewProgress(nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range append(r.Runs, r.Init) {
		if row.Skipped == "" && row.MedianUS <= 0 {
			t.Errorf("%+v", row)
		}
	}
	if len(r.Runs) != 5 || len(r.Init.Parts) != dearest || len(lab.Find(r.Runs, rowRun).Parts) != 3 {
		t.Errorf("%+v", r)
	}
}
