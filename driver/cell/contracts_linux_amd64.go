package cell

import "aether/sandbox"

var _ sandbox.ForkReporter = (*instance)(nil)
