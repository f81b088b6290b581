package scale_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"aether/driver/cell"
	"aether/image"
	"aether/lab/scale"
	"aether/sandbox"
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
	for _, shared := range []bool{false, true} {
		watched := &watched{Driver: driver}
		r, err := scale.Measure(t.Context(), watched, scale.Options{Rounds: 1, Alive: 12, HostNetwork: shared})
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
		if watched.made < 12 || (watched.shared == watched.made) != shared || (watched.shared == 0) == shared || strings.Contains(r.Text(), "host's network") != shared {
			t.Errorf("of %d sandboxes, %d had the host's network; asked for it: %v", watched.made, watched.shared, shared)
		}
	}
}

// watched counts the sandboxes that are made, and those on the host's network.
type watched struct {
	*cell.Driver
	mu           sync.Mutex
	made, shared int
}

func (w *watched) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Instance, error) {
	w.mu.Lock()
	w.made++
	if spec.Network.Mode == sandbox.HostNetwork {
		w.shared++
	}
	w.mu.Unlock()
	return w.Driver.Create(ctx, spec)
}

func TestMeasureRefuses(t *testing.T) {
	driver := cell.New(cell.Options{})
	for _, opts := range []scale.Options{{Rounds: -1}, {Alive: 100_001}} {
		if _, err := scale.Measure(t.Context(), driver, opts); err == nil {
			t.Errorf("%+v is taken", opts)
		}
	}
}
