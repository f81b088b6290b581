package qemu

import (
	"aether/driver/guestagent"
	"aether/sandbox"
)

// instance is one living sandbox: the lifecycle that all drivers with a service
// inside share, and what only machines can do.
type instance struct {
	*guestagent.Instance
	*machine
}

var (
	_ sandbox.Instance    = (*instance)(nil)
	_ sandbox.Pauser      = (*instance)(nil)
	_ sandbox.Snapshotter = (*instance)(nil)
	_ sandbox.Forker      = (*instance)(nil)
)
