//go:build !linux

package main

import (
	"context"
	"io"

	"aether/sandbox"
)

func measure(context.Context, options, io.Writer) (report, error) {
	return report{}, &sandbox.Error{Class: sandbox.Unavailable, Reason: "the sandboxes that are measured are Linux's", Remedy: "use a Linux host"}
}
