//go:build !linux

package drivertest

import (
	"testing"

	"aether/sandbox"
)

func (s *suite) neighbours(t *testing.T) {
	t.Skip("the program that is in sandboxes and beside them is made for Linux")
}

func (s *suite) egress(*testing.T) []test { return nil }

func (s *suite) nat(*testing.T) []test { return nil }

func (s *suite) egressLeaks(*testing.T, string, sandbox.NetworkMode) {}
