//go:build !linux

package gvisor

import (
	"aether/driver/launched"
	"aether/sandbox"
)

func system(Platform) launched.System {
	return launched.System{Name: Name, Boundary: sandbox.KernelBoundary}
}
