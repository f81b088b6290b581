package isolation

import (
	"slices"
	"testing"

	"aether/internal/host/isolationprobe"
)

// TestNames: the table and the program know the same probes.
func TestNames(t *testing.T) {
	looked := append(isolationprobe.Names(), "exhaust-processes", "exhaust-memory", "exhaust-disk")
	for _, p := range table {
		if !slices.Contains(looked, p.Name) {
			t.Errorf("nobody looks at %s", p.Name)
		}
	}
	for _, name := range looked {
		if !slices.ContainsFunc(table, func(p Probe) bool { return p.Name == name }) {
			t.Errorf("%s is not in the table", name)
		}
	}
}
