package gvisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"aether/driver/command"
	"aether/internal/host/features"
	"aether/sandbox"
)

const program = "runsc"

// PathVariable names runsc where it is neither in PATH nor beside this program.
const PathVariable = "AETHER_RUNSC"

func system(p Platform) command.System {
	return command.System{
		Name: Name, Boundary: sandbox.KernelBoundary, Program: program, Find: find,
		Install: "build it with `make runsc`, or install a release of gVisor",
		Needs:   p.needs, Version: version, Command: p.run,
		Opaque: true, Group: group, MinMemory: minMemory, OwnNetwork: true, TakesDevice: true,
	}
}

// find looks where the variable says, and beside this program. PATH comes after.
func find() string {
	if named := os.Getenv(PathVariable); named != "" {
		return named
	}
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	beside := filepath.Join(filepath.Dir(self), program)
	if info, err := os.Stat(beside); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return beside
}

func version(ctx context.Context, path string) (string, error) {
	line, err := command.FirstLine(ctx, path, "--version")
	return strings.TrimPrefix(line, program+" version "), err
}

// needs says why this host has no such platform.
func (p Platform) needs() error {
	switch p {
	case Systrap:
		return nil
	case KVM:
		return features.KVM(context.Background())
	}
	return &sandbox.Error{Class: sandbox.Invalid, Field: "platform", Reason: fmt.Sprintf("%.40q is no platform of gVisor", string(p)),
		Remedy: "use systrap or kvm"}
}
