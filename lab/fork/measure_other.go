//go:build !linux

package fork

import (
	"context"

	"aether/sandbox"
)

// Measure runs the whole benchmark.
func Measure(context.Context, sandbox.Driver, Options) (Report, error) {
	return Report{}, &sandbox.Error{Class: sandbox.Unavailable, Reason: "running sandboxes are forked on Linux only", Remedy: "use a Linux host"}
}
