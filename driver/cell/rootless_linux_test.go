package cell_test

import (
	"testing"

	"aether/internal/unprivtest"
)

// TestAgainAsOrdinaryUser runs the other tests once more without the rights of
// root.
func TestAgainAsOrdinaryUser(t *testing.T) { unprivtest.AsOrdinaryUser(t, others()) }

// TestAgainAsRootWithoutRights runs them as the root of a container.
func TestAgainAsRootWithoutRights(t *testing.T) { unprivtest.AsRootWithoutRights(t, others()) }

func others() []string {
	flags := []string{"-test.skip=^TestAgainAs"}
	if testing.Short() {
		flags = append(flags, "-test.short")
	}
	return flags
}
