package rest_test

import (
	"testing"

	"aether/rest"
	"aether/sandbox"
)

// TestRankOverHTTP: the same judgments as the command line's, by weights and needs.
func TestRankOverHTTP(t *testing.T) {
	d := open(t, rest.Limits{})
	c := d.client(t, d.http, annsKey)
	list, err := c.Rank(t.Context(), rest.RankRequest{Weights: "isolation=3", Needs: []string{"isolation>=0.85", "fitness>=0.7"}})
	systems, ok := list["systems"].([]any)
	if err != nil || !ok || len(systems) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	if first := systems[0].(map[string]any); first["system"] != "firecracker" || first["weighted"] == nil || first["boundary"] != "hardware" {
		t.Errorf("%v", first)
	}
	versus, err := c.Compare(t.Context(), "gvisor", "docker")
	if err != nil || versus["a"] != "gvisor" || len(versus["axis_deltas"].([]any)) != 5 {
		t.Errorf("%v, %v", versus, err)
	}
	for _, wrong := range []rest.RankRequest{{Weights: "beauty=1"}, {Needs: []string{"isolation"}}} {
		_, err := c.Rank(t.Context(), wrong)
		wantClass(t, err, sandbox.Invalid)
	}
	_, err = c.Compare(t.Context(), "gvisor", "nothing")
	if class := sandbox.ClassOf(err); class != sandbox.Invalid && class != sandbox.NotFound {
		t.Error(err)
	}
}
