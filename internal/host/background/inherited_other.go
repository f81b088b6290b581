//go:build unix && !linux

package background

// closeInherited does nothing where no daemon runs.
func closeInherited() error { return nil }
