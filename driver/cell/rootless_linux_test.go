package cell_test

import (
	"testing"

	"aether/driver/drivertest"
	"aether/internal/unprivtest"
	"aether/network"
)

// TestAgainAsOrdinaryUser runs the other tests once more without the rights of
// root.
func TestAgainAsOrdinaryUser(t *testing.T) {
	unprivtest.AsOrdinaryUser(t, others(), drivertest.Built(t), network.PathVariable+"="+builtNetwork(t))
}

// TestAgainAsRootWithoutRights runs them, in their short form, as the root of a
// container, who has what an ordinary user has but for its id.
func TestAgainAsRootWithoutRights(t *testing.T) {
	unprivtest.AsRootWithoutRights(t, append(others(), "-test.short"), drivertest.Built(t), network.PathVariable+"="+builtNetwork(t))
}

func others() []string {
	flags := []string{"-test.skip=^TestAgainAs"}
	if testing.Short() {
		flags = append(flags, "-test.short")
	}
	return flags
}
