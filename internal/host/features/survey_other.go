//go:build !linux

package features

import (
	"context"
	"runtime"
)

// Survey says that this is not Linux.
func Survey(context.Context) []Facility {
	return []Facility{{Name: "linux", State: Missing, Required: true, Detail: "this host runs " + runtime.GOOS,
		Cost: "the built-in engine needs a Linux kernel", Remedy: "use a driver for this system, or a Linux machine"}}
}
