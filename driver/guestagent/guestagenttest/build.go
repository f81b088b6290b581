// Package guestagenttest builds aether-guest for the tests of drivers that run it.
// What is built for users is built by make.
package guestagenttest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"aether/driver/guestagent"
)

// Flags are those of a release: stripped, and without what a guest does not need
// (HTTP/2, inlining), which makes it a good deal smaller.
var Flags = []string{"-trimpath", "-tags=nethttpomithttp2", "-gcflags=all=-dwarf=false -l", "-ldflags=-s -w -funcalign=1"}

// Build builds the program into dir and lets guestagent.Find find it, unless the
// caller's environment names one already.
func Build(dir string) error {
	if os.Getenv(guestagent.PathVariable) != "" {
		return nil
	}
	path := filepath.Join(dir, guestagent.Name)
	cmd := exec.Command("go", append(append([]string{"build"}, Flags...), "-o", path, "aether/cmd/aether-guest")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", guestagent.Name, err, out)
	}
	return os.Setenv(guestagent.PathVariable, path)
}
