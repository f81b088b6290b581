package drivertest

import (
	"testing"

	"aether/host/again"
)

// AsOrdinaryUser runs tests of this very binary, chosen as by -run, once more
// without the rights of root, and logs what was skipped there. Variables of the
// form NAME=value are added to its environment.
func AsOrdinaryUser(t *testing.T, run string, env ...string) {
	t.Helper()
	again.AsOrdinaryUser(t, []string{"-test.run=" + run}, env...)
}
