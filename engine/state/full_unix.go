//go:build unix

package state

import (
	"errors"
	"syscall"
)

// isFull says whether an error is that of a disk without room.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
