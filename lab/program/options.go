package program

// Options say how much is measured.
type Options struct {
	// Rounds is how often each run is measured.
	Rounds int
	// Program is the built aether.
	Program string
}
