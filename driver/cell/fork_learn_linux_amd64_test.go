package cell_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"aether/sandbox"
)

// Toucher writes to a hundred pages when it is asked, and says how often it had
// to stop for one.
const toucher = `
import mmap, resource, sys
pages = 100
data = mmap.mmap(-1, pages * 4096, flags=mmap.MAP_PRIVATE)
for page in range(pages):
    data[page * 4096] = 1
print("primed", flush=True)
for line in sys.stdin:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for page in range(pages):
        data[page * 4096] = 2
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before, flush=True)
`

// TestForksLearnFromEachOther: what earlier children wrote to, later ones are
// born with.
func TestForksLearnFromEachOther(t *testing.T) {
	driver, _ := newDriver(t)
	source := create(t, driver, sandbox.Spec{})
	python := converse(t, source, 0, "python3", "-c", toucher)
	python.hear(t, "primed")
	stops := func() int {
		child := fork(t, source, 1)[0]
		c := converse(t, child, python.pid)
		c.say(t, "")
		line, err := c.lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		destroy(t, child)
		return n
	}
	if n := stops(); n < 100 {
		t.Fatalf("the first child stopped %d times for 100 pages", n)
	}
	stops()
	if n := stops(); n > 20 {
		t.Errorf("after two others a child stopped %d times", n)
	}
}

// TestForkInADirectoryThatWasMade: one that stands by for the next child is in its
// cell before the directory is.
func TestForkInADirectoryThatWasMade(t *testing.T) {
	driver, _ := newDriver(t)
	source := create(t, driver, sandbox.Spec{})
	sh(t, source, "mkdir -p /tmp/made/deep; echo here > /tmp/made/deep/file")
	c := converse(t, source, 0, "sh", "-c", "cd /tmp/made/deep; echo primed; while read line; do echo $PWD $(cat file); done")
	c.hear(t, "primed")
	for range 5 {
		child := fork(t, source, 1)[0]
		copied := converse(t, child, c.pid)
		copied.say(t, "")
		copied.hear(t, "/tmp/made/deep here")
		destroy(t, child)
		time.Sleep(20 * time.Millisecond) // for one to stand by
	}
}
