package sandbox

import "context"

// MaxConsole bounds what a Console gives.
const MaxConsole = 64 << 10

// Console is an Instance with a console of its own, as machines have.
type Console interface {
	// Console gives the end of what the sandbox's kernel, and whoever else may, has
	// written to its console since the Instance began, at most MaxConsole bytes; cut says
	// that there was more before. The bytes are the guest's, and hostile. What an Instance
	// has written that has ended is still there.
	Console(context.Context) (end []byte, cut bool, err error)
}
