package cell_test

import (
	"os"
	"strconv"
	"testing"

	"aether/sandbox"
)

// TestStreamsAreAside: our ends of the streams of what runs in cells are not among the
// first descriptors of this program, which every start of a process copies.
func TestStreamsAreAside(t *testing.T) {
	needRoot(t, "fork of such cells")
	const count, streams = 60, 3
	driver, _ := newDriver(t)
	source := create(t, driver, sandbox.Spec{})
	for _, more := range []struct {
		name string
		make func(*testing.T)
	}{
		{"commands", func(t *testing.T) {
			for range count {
				cat := converse(t, source, 0, "cat")
				cat.say(t, "here")
				cat.hear(t, "here")
			}
		}},
		{"forks", func(t *testing.T) {
			other := create(t, driver, sandbox.Spec{})
			converse(t, other, 0, "python3", "-c", adder).hear(t, "primed")
			children, err := other.(sandbox.Forker).Fork(t.Context(), make([]sandbox.Spec, count))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				for _, child := range children {
					destroy(t, child)
				}
			})
		}},
	} {
		t.Run(more.name, func(t *testing.T) {
			more.make(t)
			// Some of the first stay where they are, and what comes and goes is among them.
			const near = 100
			if open := nearDescriptors(t); open > near {
				t.Errorf("beside %d streams this program has %d descriptors where new processes take theirs from", count*streams, open)
			}
		})
	}
}

// nearDescriptors counts those that spawn does not put aside.
func nearDescriptors(t *testing.T) (count int) {
	t.Helper()
	const aside = 1024
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		if fd < aside {
			count++
		}
	}
	return count
}
