package drivertest

import (
	"testing"

	"aether/internal/unprivtest"
)

// AsOrdinaryUser runs tests of this very binary, chosen as by -run, once more
// without the rights of root, and logs what was skipped there. Variables of the
// form NAME=value are added to its environment.
func AsOrdinaryUser(t *testing.T, run string, env ...string) {
	t.Helper()
	env = append(env, Built(t))
	unprivtest.AsOrdinaryUser(t, []string{"-test.run=" + run}, env...)
}
