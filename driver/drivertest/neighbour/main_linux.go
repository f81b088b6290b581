// Command neighbour is what the groups neighbours and egress of the conformance suite run
// in sandboxes and beside them. It is built for that, by the suite. Its arguments are a
// probe of the network, or marks by which others may look for it.
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
	if probe(os.Args[1:]) {
		return
	}
	if err := neighbourtest.Serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
