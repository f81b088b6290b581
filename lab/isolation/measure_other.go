//go:build !linux

package isolation

import (
	"context"

	"aether/sandbox"
)

// Measure makes a sandbox by the driver and judges it.
func Measure(context.Context, sandbox.Driver, Options) (Result, error) {
	return Result{}, &sandbox.Error{Class: sandbox.Unavailable, Reason: "isolation is measured on Linux only", Remedy: "use a Linux host"}
}
