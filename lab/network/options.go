package network

// Options say how much is measured.
type Options struct {
	// Rounds is how often each system is measured.
	Rounds int
	// Idle is how many sandboxes are kept alive for the idle memory.
	Idle int
}
