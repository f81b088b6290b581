package background

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// firstOther is the first descriptor after those of every program.
const firstOther = 3

// closeInherited has no descriptor of this program's be inherited, as Go's own are not.
func closeInherited() error {
	return os.NewSyscallError("close_range", unix.CloseRange(firstOther, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC))
}
