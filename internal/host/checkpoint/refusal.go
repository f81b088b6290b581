package checkpoint

import (
	"fmt"

	"aether/sandbox"
)

// refuse says that a process holds something that cannot be carried over.
func refuse(pid int, name, what string, retry bool) error {
	remedy := "an engine of whole machines can"
	if retry {
		remedy = "try again in a moment"
	}
	return &sandbox.Error{Class: sandbox.Conflict, Op: "fork", Retry: retry, Remedy: remedy,
		Reason: fmt.Sprintf("process %d (%s) %s", pid, name, what)}
}

// damaged says that a document says what no imprint could.
func damaged(format string, args ...any) error {
	return &sandbox.Error{Class: sandbox.Invalid, Field: "snapshot", Reason: "its processes are damaged: " + fmt.Sprintf(format, args...)}
}
