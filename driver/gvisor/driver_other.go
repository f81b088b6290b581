//go:build !linux

package gvisor

import (
	"aether/driver/command"
	"aether/sandbox"
)

func system(Platform) command.System {
	return command.System{Name: Name, Boundary: sandbox.KernelBoundary}
}
