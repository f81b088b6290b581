//go:build !linux

package snapshot

import (
	"context"

	"aether/lab"
	"aether/lab/run"
	"aether/sandbox"
)

// Measure needs a Linux host.
func Measure(context.Context, []lab.System, Options, *run.Store) error {
	return &sandbox.Error{Class: sandbox.Unavailable, Reason: "the memory of sandboxes is read from Linux", Remedy: "use a Linux host"}
}
