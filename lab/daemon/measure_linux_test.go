package daemon

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aether/driver/cell"
	"aether/image"
	"aether/lab"
	"aether/network/networktest"
	"aether/sandbox"
)

// TestMeasure runs the whole benchmark, as small as it gets, with a program that it
// builds.
func TestMeasure(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the program")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go tool in PATH")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "aether")
	build := exec.Command("go", "build", "-o", program, "aether/cmd/aether")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command(program, "run", "--", "true").CombinedOutput(); err != nil {
		t.Skipf("no command runs in a sandbox here: %s", out)
	}
	if err := networktest.Build(dir); err != nil {
		t.Fatal(err)
	}
	cells := sandbox.Maker{Name: cell.Name, New: func() sandbox.Driver {
		return cell.New(cell.Options{RunDir: filepath.Join(dir, "run"), Images: func() (*image.Store, error) { return image.Open(filepath.Join(dir, "images")) }})
	}}
	r, err := Measure(t.Context(), Options{Rounds: 1, Idle: 3, Program: program, Cells: cells}, lab.NewProgress(nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, rows := range [][]lab.Row{r.Exec, r.Create, r.Life, r.Claim, r.Undo, r.Step, r.E2B, r.Code, r.Pages} {
		if len(rows) == 0 {
			t.Errorf("%+v", r)
		}
		for _, row := range rows {
			if row.Skipped == "" && row.MedianUS <= 0 {
				t.Errorf("%+v", row)
			}
		}
	}
	if r.Memory.EmptyKiB <= 0 || r.Memory.IdleKiB <= 0 {
		t.Errorf("%+v", r.Memory)
	}
}

func TestTargets(t *testing.T) {
	rows := func(with, without float64) []lab.Row {
		return []lab.Row{{Name: rowEngine, MedianUS: without}, {Name: rowUnix, MedianUS: with}}
	}
	execs := func(with, without, agent float64) []lab.Row {
		return append(rows(with, without), lab.Row{Name: rowMCP, MedianUS: agent})
	}
	undone := func(us float64) []lab.Row {
		return []lab.Row{{Name: rowFork, MedianUS: 100}, {Name: rowUndo, MedianUS: us}}
	}
	wires := func(dialect, own float64) []lab.Row {
		return []lab.Row{{Name: rowTCP, MedianUS: own}, {Name: rowE2BWire, MedianUS: dialect}}
	}
	r := Report{Exec: execs(900, 500, 1800), Create: rows(2600, 2000), Life: append(rows(5000, 4000), lab.Row{Name: rowDocker, MedianUS: 50_000}),
		Undo: undone(400), Step: []lab.Row{{Name: rowStep, MedianUS: 1000}}, Claim: rows(400, 100), E2B: wires(200, 100), Code: wires(150, 100), Pages: []lab.Row{{Name: "few", MedianUS: 100}, {Name: "many", MedianUS: 200}}, Memory: Memory{EmptyKiB: 1024, IdleKiB: 61 * 1024, Idle: 1000}}
	r.complete()
	for _, v := range r.Targets {
		if !v.Met {
			t.Errorf("%+v", v)
		}
	}
	r.Claim, r.Undo, r.Step[0].MedianUS, r.E2B, r.Code = rows(401, 100), undone(401), 1001, wires(201, 100), wires(151, 100)
	r.Exec, r.Create, r.Pages[1].MedianUS, r.Memory.IdleKiB, r.Life[2].MedianUS = execs(901, 500, 1803), rows(2601, 2000), 201, 62*1024, 49_000
	r.complete()
	for _, v := range r.Targets {
		if v.Met {
			t.Errorf("%+v", v)
		}
	}
	if text := r.Text(); !strings.Contains(text, "MISSED") {
		t.Error(text)
	}
	var none Report
	none.complete()
	for _, v := range none.Targets[:3] {
		if v.Open == "" {
			t.Errorf("%+v", v)
		}
	}
}
