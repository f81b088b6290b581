package jail

import (
	"os"

	"golang.org/x/sys/unix"
)

// Hide has nobody look into this program, which holds secrets: there is no dump of its
// memory, whatever core dumps are sent to, and no tracing by others of its user.
func Hide() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}
