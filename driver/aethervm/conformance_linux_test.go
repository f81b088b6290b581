package aethervm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"aether/driver/vmm/vmmtest"
	"aether/internal/host/features"
)

var suite = vmmtest.Suite{New: New}

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	forget, err := buildMonitor()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer forget()
	return suite.Main(m)
}

// buildMonitor builds aether-vmm for hosts that can run machines, unless one is named.
func buildMonitor() (forget func(), err error) {
	if os.Getenv(PathVariable) != "" || features.KVM(context.Background()) != nil {
		return func() {}, nil // the suite says what is missing
	}
	dir, err := os.MkdirTemp("", "aether-vmm-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, monitorProgram.Name)
	cmd := exec.Command("go", "build", "-o", path, "aether/cmd/aether-vmm")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", PathVariable+"=")
	if out, err := cmd.CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("build aether-vmm: %w\n%s", err, out)
	}
	return func() { os.RemoveAll(dir) }, os.Setenv(PathVariable, path)
}

// TestConformance runs wherever KVM is usable, and in the lab: go run ./cmd/kvmtest -driver
// aethervm.
func TestConformance(t *testing.T) { suite.Run(t) }
