package spawn

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Visibility keeps apart, for an ordinary user, what needs this program dumpable (whoever
// writes files of /proc of a child that still has this program's memory, locked for
// writing) and what needs it not to be (children that enter sandboxes with that memory,
// for reading). Whether it is dumpable is a fact about the memory, which all of them share.
// Root needs neither.
var Visibility sync.RWMutex

// Visible runs fn, for an ordinary user, while this program is dumpable, and hides the
// program again if it was hidden.
func Visible(fn func() error) error {
	if os.Geteuid() == 0 {
		return fn()
	}
	Visibility.Lock()
	defer Visibility.Unlock()
	was, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		return os.NewSyscallError("prctl", err)
	}
	if was != 1 {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
			return os.NewSyscallError("prctl", err)
		}
		defer func() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }() // it has been so before
	}
	return fn()
}

// Hidden runs fn, for an ordinary user, while nobody makes this program dumpable.
func Hidden(fn func() error) error {
	if os.Geteuid() != 0 {
		Visibility.RLock()
		defer Visibility.RUnlock()
	}
	return fn()
}
