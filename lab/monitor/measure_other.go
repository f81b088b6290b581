//go:build !linux

package monitor

import (
	"context"

	"aether/lab"
	"aether/sandbox"
)

var errNone = &sandbox.Error{Class: sandbox.Unavailable, Reason: "monitors run machines on Linux only", Remedy: "use a Linux host"}

// Measure holds one system against another.
func Measure(context.Context, lab.System, lab.System, Options) (Report, error) {
	return Report{}, errNone
}

// Crowds makes children of one machine by one call, again and again.
func Crowds(context.Context, lab.System, Options) ([]Crowd, error) { return nil, errNone }
