package engine

import (
	"strconv"

	"aether/sandbox"
)

// tellClosed says in an event how many connections are closed in what was made of a
// checkpoint: of an instance, or the one that it came from.
func tellClosed(detail map[string]string, instance sandbox.Instance) {
	reporter, ok := instance.(sandbox.ConnectionReporter)
	if !ok {
		return
	}
	if n := reporter.ConnectionsClosed(); n > 0 {
		detail["connections_closed"] = strconv.Itoa(n)
	}
}
