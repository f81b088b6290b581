// Package labtest makes real systems for the tests of what measures them.
package labtest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"aether/driver/bubblewrap"
	"aether/driver/cell"
	"aether/driver/guestagent"
	"aether/driver/guestagent/guestagenttest"
	"aether/image"
	"aether/lab"
	"aether/lab/run"
	"aether/profile"
	"aether/sandbox"
)

// Cells is the system that runs wherever the tests do. It ends with the test.
func Cells(t *testing.T) lab.System {
	t.Helper()
	dir, images := place(t)
	newCells := func() sandbox.Driver {
		return cell.New(cell.Options{Images: images, RunDir: filepath.Join(dir, "cell"), SnapshotDir: filepath.Join(dir, "snapshots")})
	}
	cells := newCells()
	closeLast(t, cells)
	return lab.System{Name: cell.Name, Driver: cells, New: newCells}
}

// place is a directory that ids of sandboxes can reach, and images in it.
func place(t *testing.T) (dir string, images func() (*image.Store, error)) {
	t.Helper()
	dir = t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, func() (*image.Store, error) { return image.Open(filepath.Join(dir, "images")) }
}

// Systems are cells and, where it runs, bubblewrap. They end with the test.
func Systems(t *testing.T) []lab.System {
	t.Helper()
	list := []lab.System{Cells(t)}
	dir, images := place(t)
	// What is built ends with the test, and so does the variable that names it.
	t.Setenv(guestagent.PathVariable, os.Getenv(guestagent.PathVariable))
	if err := guestagenttest.Build(dir); err != nil {
		t.Fatal(err)
	}
	newPeer := func() sandbox.Driver {
		return bubblewrap.New(bubblewrap.Options{Images: images, RunDir: filepath.Join(dir, "bwrap")})
	}
	peer := newPeer()
	closeLast(t, peer)
	if report := peer.Probe(t.Context()); !report.Usable {
		t.Log("without bubblewrap:", report.Reason)
		return list
	}
	return append(list, lab.System{Name: bubblewrap.Name, Driver: peer, New: newPeer})
}

// closeLast closes a driver when the test is over.
func closeLast(t *testing.T, driver sandbox.Driver) {
	t.Cleanup(func() {
		if err := driver.(sandbox.Closer).Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// Store is an empty run.
func Store(t *testing.T, systems []lab.System) *run.Store {
	t.Helper()
	h := run.Header{Schema: run.Schema, ID: "test"}
	for _, s := range systems {
		h.Systems = append(h.Systems, s.Name)
	}
	for _, a := range profile.Axes() {
		h.Axes = append(h.Axes, a.String())
	}
	store, err := run.Create(filepath.Join(t.TempDir(), "run"), h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	for _, s := range systems {
		if err := store.Append(run.Record{Kind: run.Found, System: s.Name, Machine: &run.Machine{Boundary: s.Driver.Info().Boundary.String()}}); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

// Axis is what the summary of a run says of a system on an axis.
func Axis(t *testing.T, store *run.Store, system string, axis profile.Axis) run.Axis {
	t.Helper()
	r, err := store.Summarize()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Results {
		if a := s.Axis(axis.String()); s.System == system && a != nil {
			return *a
		}
	}
	t.Fatalf("the run says nothing of %s on %s", system, axis)
	return run.Axis{}
}

// Forks says whether sandboxes of a system can be forked here, with their memory.
func Forks(s lab.System) bool { return s.Driver.Info().Verbs.Fork == sandbox.Live }
