package jail

import (
	"os"

	"golang.org/x/sys/unix"
)

// BoundFiles has this program write to no file beyond so many bytes, for good: who takes it over
// later cannot fill a file system by making a file longer that it was handed.
func BoundFiles(most int64) error {
	limit := unix.Rlimit{Cur: uint64(most), Max: uint64(most)}
	return os.NewSyscallError("prlimit", unix.Prlimit(0, unix.RLIMIT_FSIZE, &limit, nil))
}
