package cell

import "aether/sandbox"

var (
	_ sandbox.ForkReporter       = (*instance)(nil)
	_ sandbox.ConnectionReporter = (*instance)(nil)
)
