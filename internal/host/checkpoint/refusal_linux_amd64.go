package checkpoint

import (
	"fmt"

	"aether/sandbox"
)

// refuse says what of the process cannot be carried over, and whether it may be in a
// moment.
func (p *Tracee) refuse(retry bool, format string, args ...any) error {
	remedy := "an engine of whole machines can"
	if retry {
		remedy = "try again in a moment"
	}
	return &sandbox.Error{Class: sandbox.Conflict, Op: "fork", Retry: retry, Remedy: remedy,
		Reason: fmt.Sprintf("process %d (%s) %s", p.NSPid, p.Name, fmt.Sprintf(format, args...))}
}

// damaged says that an image says what no checkpoint could.
func damaged(format string, args ...any) error {
	return &sandbox.Error{Class: sandbox.Invalid, Field: "snapshot", Reason: "its processes are damaged: " + fmt.Sprintf(format, args...)}
}
