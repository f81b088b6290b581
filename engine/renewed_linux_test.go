package engine_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"aether/driver/cell"
	"aether/engine"
	"aether/image"
	"aether/sandbox"
)

// renewing makes real cells of which forks say what they were given of their own.
type renewing struct{ sandbox.Driver }

func (d renewing) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Instance, error) {
	made, err := d.Driver.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	return renewingInstance{made, nil}, nil
}

type renewingInstance struct {
	sandbox.Instance
	renewed []string
}

func (i renewingInstance) Renewed() []string { return i.renewed }

func (i renewingInstance) ForkFidelity() sandbox.Fidelity {
	return i.Instance.(sandbox.Forker).ForkFidelity()
}

func (i renewingInstance) Fork(ctx context.Context, specs []sandbox.Spec) ([]sandbox.Instance, error) {
	made, err := i.Instance.(sandbox.Forker).Fork(ctx, specs)
	for n := range made {
		made[n] = renewingInstance{made[n], []string{"entropy", "clock"}}
	}
	return made, err
}

// TestForkTellsWhatWasRenewed: the answer of a fork says it, and so does what is asked later.
func TestForkTellsWhatWasRenewed(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	options := h.options()
	options.Drivers = []sandbox.Maker{{Name: cell.Name, New: func() sandbox.Driver {
		return renewing{cell.New(cell.Options{Images: func() (*image.Store, error) { return image.Open(filepath.Join(h.dir, "images")) }, RunDir: filepath.Join(h.dir, "run")})}
	}}}
	e, err := engine.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.close(e) })
	source := create(t, e, alice, engine.CreateRequest{})
	children, err := e.Fork(t.Context(), alice, source.ID, engine.ForkRequest{Count: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range children {
		if want := []string{"entropy", "clock"}; !slices.Equal(child.Renewed, want) {
			t.Errorf("%q, want %q", child.Renewed, want)
		}
	}
	if source.Renewed != nil {
		t.Errorf("what is no copy was given %q of its own", source.Renewed)
	}
}
