package seccomp

import "golang.org/x/sys/unix"

// FcntlBase is where the commands begin that only Linux has (F_LINUX_SPECIFIC_BASE).
// Those below it act on the descriptor or are locks.
const FcntlBase = 1024

// FcntlAllowed are the commands of Linux's own that act on the descriptor or only
// ask.
var FcntlAllowed = []uint32{unix.F_DUPFD_CLOEXEC, unix.F_GETPIPE_SZ, unix.F_SETPIPE_SZ, unix.F_ADD_SEALS, unix.F_GET_SEALS,
	unix.F_GET_RW_HINT, unix.F_GETLEASE, unix.F_DUPFD_QUERY, unix.F_CREATED_QUERY}

const noLeases = "locks and what acts on the descriptor: no leases, which hold up others who open the file, no watches of directories by signal, " +
	"no hints, which are kept with the file: EINVAL, as where there is no such thing"

// fcntlCommand refuses the other commands of Linux's own, those to come included.
func (a *assembler) fcntlCommand() {
	own := a.fresh()
	a.loadArg(1)
	a.ifAtLeast(FcntlBase, own, int(allow))
	a.label(own)
	for _, command := range FcntlAllowed {
		a.ifEqual(command, allow)
	}
	a.ret(einval)
}
