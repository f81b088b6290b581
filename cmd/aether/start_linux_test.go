package main

import (
	"fmt"
	"strings"
	"testing"
)

// Whoever runs a command waits until every package has been initialised, whether the
// command needs it or not. How long that takes is measured by make bench; what shows
// without a clock is how much a package makes: a pattern that is compiled ahead of its
// use is a few hundred objects.
func TestPackagesMakeLittleAheadOfTheirUse(t *testing.T) {
	const most = 100
	cmd := aether(t, "version")
	cmd.Env = append(cmd.Env, "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err, string(out))
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "init aether/") {
			continue
		}
		var name string
		var at, took float64
		var bytes, objects int
		if _, err := fmt.Sscanf(line, "init %s @%f ms, %f ms clock, %d bytes, %d allocs", &name, &at, &took, &bytes, &objects); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		seen++
		if name != "aether/cmd/aether" && objects > most { // that one has the tests' own
			t.Errorf("%s makes %d objects (%d bytes) before main: at most %d. Make them when they are needed, by sync.OnceValue", name, objects, bytes, most)
		}
	}
	if seen == 0 {
		t.Fatalf("the runtime says nothing of packages:\n%s", out)
	}
}
