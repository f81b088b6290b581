package vmm

import (
	"os"
	"slices"
	"testing"

	"aether/internal/host/launch"
	"aether/sandbox"
)

// TestKeep: a monitor that a guest has taken over may name any files.
func TestKeep(t *testing.T) {
	for _, c := range []struct {
		has  int
		kept []int
		ok   bool
	}{
		{1, []int{0}, true}, {1, []int{0, 1}, true}, {3, []int{0, 3}, true}, {0, []int{0}, true},
		{1, []int{2}, false}, {1, []int{-1}, false}, {1, []int{1, 0}, false}, {1, []int{0, 0}, false},
	} {
		m := &machine{}
		var all []*os.File
		for range c.has + 1 {
			file, err := launch.MemoryFile("memory", 0)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, file)
		}
		m.memory = slices.Clone(all[:c.has])
		err := m.keep(c.kept, all[c.has])
		if (err == nil) != c.ok || err != nil && sandbox.ClassOf(err) != sandbox.Internal {
			t.Errorf("%v of %d: %v", c.kept, c.has, err)
		}
		if c.ok && len(m.memory) != len(c.kept) {
			t.Errorf("%v of %d: %d files are left", c.kept, c.has, len(m.memory))
		}
		open := 0
		for _, file := range all {
			if _, err := file.Stat(); err == nil {
				open++
			}
		}
		if open != len(m.memory) {
			t.Errorf("%v of %d: %d files are open, and %d are the machine's", c.kept, c.has, open, len(m.memory))
		}
		closeAll(m.memory)
	}
}
