package fork_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"aether/driver/cell"
	"aether/image"
	"aether/lab/fork"
)

// TestMeasure runs the whole benchmark, as small as it gets.
func TestMeasure(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("cells are forked on amd64 only")
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("this host has no python3")
	}
	if testing.Short() {
		t.Skip("it takes several seconds")
	}
	dir := t.TempDir()
	images := func() (*image.Store, error) { return image.Open(filepath.Join(dir, "images")) }
	driver := cell.New(cell.Options{Images: images, RunDir: filepath.Join(dir, "run")})
	defer func() {
		if err := driver.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	r, err := fork.Measure(t.Context(), driver, fork.Options{Rounds: 1, Children: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range slices.Concat(r.First, r.Claim, r.Busy) {
		if row.Skipped == "" && (row.MedianUS <= 0 || row.Samples != 1 || len(row.Parts) == 0) {
			t.Errorf("%+v", row)
		}
	}
	if len(r.First) < 8 || len(r.Claim) != 2 || len(r.Busy) != 2 || len(r.Crowds) != 4 || r.Crowds[1].Seconds <= 0 || r.Crowds[3].Skipped == "" || len(r.Targets) == 0 {
		t.Errorf("%+v", r)
	}
}
