package e2b

import "aether/internal/host/sysinfo"

// hostMemory is what the host has, or zero if it does not say.
func hostMemory() int64 {
	total, _, err := sysinfo.Memory()
	if err != nil {
		return 0
	}
	return total
}
