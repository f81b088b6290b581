package cli

import (
	"errors"
	"slices"
	"testing"

	"aether/sandbox"
)

// TestBestRefusalIsSaid: what the best driver lacks here can be mended, and is not
// hidden by a lesser one that never can.
func TestBestRefusalIsSaid(t *testing.T) {
	here := &sandbox.Error{Class: sandbox.Unavailable, Reason: "not here"}
	never := &sandbox.Error{Class: sandbox.Unsupported, Reason: "never"}
	for _, c := range []struct{ best, lesser, want error }{{here, never, here}, {here, here, here}, {never, here, never}} {
		list := []sandbox.Driver{refusing{err: c.best}, refusing{err: c.lesser}}
		if _, _, err := create(t.Context(), slices.Values(list), sandbox.Spec{}); !errors.Is(err, c.want) {
			t.Errorf("%v, then %v: %v", c.best, c.lesser, err)
		}
	}
}
