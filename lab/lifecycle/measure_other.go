//go:build !linux

package lifecycle

import (
	"context"

	"aether/lab"
	"aether/sandbox"
)

var errNotHere = &sandbox.Error{Class: sandbox.Unavailable, Reason: "the sandboxes that are measured are Linux's", Remedy: "use a Linux host"}

// Measure runs the whole benchmark.
func Measure(context.Context, Options, *lab.Progress) (Report, error) { return Report{}, errNotHere }

// Verify has another program time the plain commands of systems.
func Verify(context.Context, int, *lab.Progress) (Check, error) { return Check{}, errNotHere }
