//go:build !linux

package aethervm

import "aether/driver/vmm"

// newMonitor is never called: no machine is made on other hosts.
func newMonitor(vmm.Dial) vmm.Monitor { return nil }
