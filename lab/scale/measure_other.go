//go:build !linux

package scale

import (
	"context"

	"aether/sandbox"
)

// Measure runs the whole benchmark.
func Measure(context.Context, sandbox.Driver, Options) (Report, error) {
	return Report{}, &sandbox.Error{Class: sandbox.Unavailable, Reason: "crowds of sandboxes are measured on Linux only", Remedy: "use a Linux host"}
}
