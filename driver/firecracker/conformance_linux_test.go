package firecracker

import (
	"os"
	"testing"

	"aether/driver/vmm/vmmtest"
)

var suite = vmmtest.Suite{New: New}

func TestMain(m *testing.M) { os.Exit(suite.Main(m)) }

// TestConformance runs wherever a release of Firecracker and a usable KVM are
// found, and in the lab: go run ./cmd/kvmtest -driver firecracker -binary PATH.
func TestConformance(t *testing.T) { suite.Run(t) }
