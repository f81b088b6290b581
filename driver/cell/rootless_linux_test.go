package cell_test

import (
	"testing"

	"aether/host/again"
)

// TestAgainAsOrdinaryUser runs the other tests once more without the rights of
// root.
func TestAgainAsOrdinaryUser(t *testing.T) {
	flags := []string{"-test.skip=^TestAgainAsOrdinaryUser$"}
	if testing.Short() {
		flags = append(flags, "-test.short")
	}
	again.AsOrdinaryUser(t, flags)
}
