package sysinfo

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// MostFiles is how many descriptors this program may have open.
func MostFiles() uint64 { return limit(unix.RLIMIT_NOFILE) }

// MostProcesses is how many processes this user may have. The kernel does not bind root.
func MostProcesses() (most uint64, bound bool) {
	most = limit(unix.RLIMIT_NPROC)
	return most, os.Geteuid() != 0 && most != math.MaxUint64
}

func limit(resource int) uint64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(resource, &l); err != nil {
		return math.MaxUint64 // the call fails only for resources that there are none of
	}
	return l.Cur
}
