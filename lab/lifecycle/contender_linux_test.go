package lifecycle

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"aether/lab"
)

// TestContenders has each system live its whole life, for a benchmark of
// sandboxes that do not work would measure nothing.
func TestContenders(t *testing.T) {
	for _, name := range Systems() {
		t.Run(name, func(t *testing.T) {
			f, err := newField(t.Context(), Options{Rounds: 2, Idle: 2, Only: []string{name}}, lab.NewProgress(nil))
			if err != nil && len(f.systems) == 1 {
				t.Skipf("%s does not run here: %s", name, f.systems[0].Skipped)
			}
			if err != nil {
				t.Fatal(err)
			}
			checkMeasurements(t, f)
			checkClean(t, f)
		})
	}
}

func checkMeasurements(t *testing.T, f *field) {
	t.Helper()
	cold, err := f.measureCold(t.Context())
	if err != nil || len(cold) != 1 {
		t.Errorf("cold: %+v, %v", cold, err)
	}
	exec, err := f.measureExec(t.Context())
	if err != nil || len(exec) != len(f.distinct()) {
		t.Errorf("exec: %+v, %v", exec, err)
	}
	for _, row := range slices.Concat(cold, exec) {
		if row.Skipped == "" && (row.P10US <= 0 || row.MedianUS < row.P10US || row.P99US < row.MedianUS || len(row.Parts) == 0) {
			t.Errorf("%+v", row)
		}
	}
	alive, err := crowd(t.Context(), f.entries[0].contender, f.opts.Idle)
	if err != nil || len(alive) != f.opts.Idle {
		t.Errorf("%d are alive, %v", len(alive), err)
	}
	for _, sandbox := range alive {
		if err := sandbox.end(); err != nil {
			t.Error(err)
		}
	}
}

// checkClean closes the field and looks for what it may have left.
func checkClean(t *testing.T, f *field) {
	t.Helper()
	for _, name := range []string{nameCrun, nameRunc} {
		if left, err := os.ReadDir(filepath.Join(f.dir, name, "state")); err == nil && len(left) > 0 {
			t.Errorf("%s knows of %d containers still", name, len(left))
		}
	}
	if err := f.close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(f.dir); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", f.dir, err)
	}
}
