//go:build unix && !linux

package storedir

import "syscall"

// Sync makes everything that was written durable.
func Sync(string) error {
	syscall.Sync()
	return nil
}
