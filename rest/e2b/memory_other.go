//go:build !linux

package e2b

// hostMemory is not known: no sandbox runs here.
func hostMemory() int64 { return 0 }
