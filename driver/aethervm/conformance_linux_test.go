package aethervm

import (
	"os"
	"testing"

	"aether/driver/vmm/vmmtest"
)

var suite = vmmtest.Suite{New: New}

func TestMain(m *testing.M) { os.Exit(suite.Main(m)) }

// TestConformance runs wherever aether-vmm and a usable KVM are found, and in the lab:
// go run ./cmd/kvmtest -driver aethervm.
func TestConformance(t *testing.T) { suite.Run(t) }
