package daemon

import "aether/sandbox"

// Options say how much is measured.
type Options struct {
	// Rounds is how often each way is measured.
	Rounds int
	// Idle is how many sandboxes a daemon holds for its memory and its pages.
	Idle int
	// Program is the built aether.
	Program string
	// Cells makes the driver of the engine in this process, which is to be the
	// daemon's too.
	Cells sandbox.Maker
}
