package cell_test

import (
	"testing"

	"aether/internal/unprivtest"
)

// TestAgainAsOrdinaryUser runs the other tests once more without the rights of
// root.
func TestAgainAsOrdinaryUser(t *testing.T) {
	flags := []string{"-test.skip=^TestAgainAsOrdinaryUser$"}
	if testing.Short() {
		flags = append(flags, "-test.short")
	}
	unprivtest.AsOrdinaryUser(t, flags)
}
