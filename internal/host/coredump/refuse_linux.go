package coredump

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Limit is a size of core dumps for which the kernel writes none, neither to a file nor to
// the program that kernel.core_pattern names, which is the host's and root's. Zero does not
// do: the kernel writes to that program whatever the limit is, but for this one.
const Limit = 1

// Refuse has the kernel write no core dump of this program, nor of those that it starts,
// unless they ask for another limit: the hard limit stays as it is. There would be none of
// a process that is not dumpable either, but an ordinary user's process must be dumpable to
// write the id maps of its cells.
func Refuse() error {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &now); err != nil {
		return fmt.Errorf("coredump: read the limit: %w", err)
	}
	now.Cur = min(Limit, now.Max)
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &now); err != nil {
		return fmt.Errorf("coredump: set the limit: %w", err)
	}
	return nil
}
