//go:build !linux

package daemon

import (
	"context"

	"aether/lab"
	"aether/sandbox"
)

// Measure runs the whole benchmark.
func Measure(context.Context, Options, *lab.Progress) (Report, error) {
	return Report{}, &sandbox.Error{Class: sandbox.Unavailable, Reason: "a daemon's sandboxes are measured on Linux only", Remedy: "use a Linux host"}
}
