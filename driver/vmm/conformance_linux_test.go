package vmm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"aether/driver/vmm"
	"aether/driver/vmm/vmmtest"
)

var suite = vmmtest.Suite{New: func(o vmm.Options) *vmm.Driver {
	o.Program = monitorScript(o.StateDir)
	return vmm.New(qemuSystem, o)
}}

// monitorScript becomes this program, but says its version without: as fast as a
// monitor does.
func monitorScript(dir string) string {
	name := filepath.Join(dir, "monitor")
	self, err := os.Executable()
	if err == nil {
		err = os.MkdirAll(dir, 0o711)
	}
	if _, there := os.Stat(name); err == nil && there != nil {
		err = os.WriteFile(name, []byte("#!/bin/sh\nif [ \"$1\" = --version ]; then echo monitor 1.0; exit; fi\nexec "+self+" \"$@\"\n"), 0o755)
	}
	if err != nil {
		panic(err)
	}
	return name
}

func TestMain(m *testing.M) {
	playMonitor()
	os.Exit(suite.Main(m))
}

func needVsock(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		t.Skip("no QEMU: apt install qemu-system-x86")
	}
	if _, err := os.Stat("/dev/vhost-vsock"); err != nil {
		t.Skipf("no vsock of machines here, as in the lab (go run ./cmd/kvmtest -driver vmm): %v", err)
	}
	suite.Need(t)
}

// TestConformance holds everything that drivers of monitors share to the contract,
// with a monitor made of QEMU.
func TestConformance(t *testing.T) {
	needVsock(t)
	suite.Run(t)
}
