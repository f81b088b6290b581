package scale_test

import (
	"context"
	"path/filepath"
	"testing"

	"aether/driver/cell"
	"aether/image"
	"aether/lab/scale"
)

// TestMeasure runs the whole benchmark, as small as it gets.
func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	images := func() (*image.Store, error) { return image.Open(filepath.Join(dir, "images")) }
	driver := cell.New(cell.Options{Images: images, RunDir: filepath.Join(dir, "run")})
	defer func() {
		if err := driver.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if report := driver.Probe(t.Context()); !report.Usable {
		t.Skip(report.Reason)
	}
	r, err := scale.Measure(t.Context(), driver, scale.Options{Rounds: 1, Alive: 12})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Levels) != 2 || r.Levels[0].Alive != 10 || r.Levels[1].Alive != 12 || r.Ending == nil || len(r.Targets) == 0 {
		t.Fatalf("%+v", r)
	}
	for _, l := range r.Levels {
		if l.Life.Samples != 2 || len(l.Life.Parts) != 3 || l.Exec.Samples != 2 || l.MakeUS <= 0 || l.Each == nil || l.Each.Descriptors <= 0 {
			t.Errorf("%+v", l)
		}
		if l.Fork.Samples != 2 && l.Fork.Skipped == "" {
			t.Errorf("forks: %+v", l.Fork)
		}
	}
}

func TestMeasureRefuses(t *testing.T) {
	driver := cell.New(cell.Options{})
	for _, opts := range []scale.Options{{Rounds: -1}, {Alive: 100_001}} {
		if _, err := scale.Measure(t.Context(), driver, opts); err == nil {
			t.Errorf("%+v is taken", opts)
		}
	}
}
