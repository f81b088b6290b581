//go:build !linux

package network

import (
	"context"

	"aether/lab"
	"aether/sandbox"
)

// Measure runs the whole benchmark.
func Measure(context.Context, Options, *lab.Progress) (Report, error) {
	return Report{}, &sandbox.Error{Class: sandbox.Unavailable, Reason: "the networks that are measured are Linux's", Remedy: "use a Linux host"}
}
