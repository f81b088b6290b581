//go:build unix && !linux

package storedir

// nobody is no user.
const nobody = -1

func foreign() bool { return false }
