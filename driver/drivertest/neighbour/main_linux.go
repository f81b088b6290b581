// Command neighbour is what the group neighbours of the conformance suite runs in
// sandboxes and beside them. It is built for that, by the suite. Its arguments are marks
// by which others may look for it.
package main

import (
	"fmt"
	"os"
	"runtime"

	"aether/internal/host/neighbourtest"
)

// The first thread is kept: others end with what they hold, and it would not.
func init() { runtime.LockOSThread() }

func main() {
	if err := neighbourtest.Serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
