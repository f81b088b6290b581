//go:build !linux

package monitor

import (
	"context"

	"aether/lab"
	"aether/sandbox"
)

// Measure holds one system against another.
func Measure(context.Context, lab.System, lab.System, Options) (Report, error) {
	return Report{}, &sandbox.Error{Class: sandbox.Unavailable, Reason: "monitors run machines on Linux only", Remedy: "use a Linux host"}
}
