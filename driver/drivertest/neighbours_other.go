//go:build !linux

package drivertest

import "testing"

func (s *suite) neighbours(t *testing.T) {
	t.Skip("the program that is in sandboxes and beside them is made for Linux")
}
