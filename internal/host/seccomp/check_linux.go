package seccomp

import "golang.org/x/sys/unix"

// check is an allowed call of which only some arguments are.
type check struct {
	nr    uint32
	why   string
	rules func(*assembler)
}

// Words of the kernel that filters of other systems check as well.
const (
	// NewNamespaces are the flags of clone that make one.
	NewNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	// TIOCSTI and TIOCLINUX are the ioctls that type into a terminal.
	TIOCSTI   = unix.TIOCSTI
	TIOCLINUX = unix.TIOCLINUX
	// AddrNoRandomize and Query are personalities, which golang.org/x/sys has no
	// names for.
	AddrNoRandomize = 0x0040000
	Query           = 0xffffffff
)

// checks are those of every architecture, and archChecks of the older forms that
// one of them still has.
var checks = append([]check{
	{unix.SYS_CLONE, "without new namespaces: " + names, func(a *assembler) {
		a.loadArg(0)
		a.ifAnyBit(NewNamespaces, eperm)
		a.ret(allow)
	}},
	{unix.SYS_CLONE3, "its flags are in memory, where no filter sees them: ENOSYS makes libraries use clone", func(a *assembler) {
		a.ret(enosys)
	}},
	{unix.SYS_SOCKET, "unix sockets, TCP, UDP and ping, and netlink for routes: other families and protocols are rarely exercised kernel code, " +
		"much of which the kernel would load for it", (*assembler).sockets},
	{unix.SYS_SOCKETPAIR, "unix sockets: those of other families are made before the kernel says that they have no pairs", func(a *assembler) {
		a.loadArg(0)
		a.unlessEqual(unix.AF_UNIX, noPair)
		a.ret(allow)
	}},
	{unix.SYS_IOCTL, "not TIOCSTI and TIOCLINUX, which type into the terminal of whoever started the sandbox", func(a *assembler) {
		a.loadArg(1)
		a.ifEqual(TIOCSTI, eperm)
		a.ifEqual(TIOCLINUX, eperm)
		a.ret(allow)
	}},
	{unix.SYS_PERSONALITY, "only the ordinary one, a query, and no address randomisation (debuggers)", func(a *assembler) {
		a.loadArg(0)
		for _, persona := range []uint32{0, Query, AddrNoRandomize} {
			a.ifEqual(persona, allow)
		}
		a.ret(eperm)
	}},
	{unix.SYS_PRCTL, "not what a process puts itself under that a fork could not see on every kernel (user dispatch of system calls, " +
		"no memory both written and executed): EINVAL, as where there is no such thing", func(a *assembler) {
		a.loadArg(0)
		a.ifEqual(unix.PR_SET_SYSCALL_USER_DISPATCH, einval)
		a.ifEqual(unix.PR_SET_MDWE, einval)
		a.ret(allow)
	}},
	{unix.SYS_MADVISE, noGuards, func(a *assembler) { a.guardAdvice(2) }},
	{unix.SYS_PROCESS_MADVISE, noGuards, func(a *assembler) { a.guardAdvice(3) }},
	{unix.SYS_FCNTL, noLeases, func(a *assembler) { a.fcntlCommand() }},
	{unix.SYS_MKNODAT, noDevices, func(a *assembler) { a.deviceMode(2) }},
	{unix.SYS_RENAMEAT2, "without leaving a whiteout, which is a device node", func(a *assembler) {
		a.loadArg(4)
		a.ifAnyBit(unix.RENAME_WHITEOUT, eperm)
		a.ret(allow)
	}},
	{unix.SYS_SETRLIMIT, noCoreLimit, func(a *assembler) {
		a.loadArg(0)
		a.ifEqual(unix.RLIMIT_CORE, pretend)
		a.ret(allow)
	}},
	{unix.SYS_PRLIMIT64, noCoreLimit, func(a *assembler) {
		a.loadArg(1)
		a.unlessEqual(unix.RLIMIT_CORE, allow)
		a.unlessNull(2, pretend)
		a.ret(allow)
	}},
}, archChecks...)

const noCoreLimit = "no other limit of core dumps than the one of the cell, for which the kernel writes none: a lower one would have them written " +
	"to the host's handler. Success, and nothing is done: those who set it want no dump, and some programs end where they may not"

const noGuards = "no guard pages, which some kernels do not tell from pages that were swapped out, so that a fork could not have them: " +
	"EINVAL, as before Linux 6.13"

// guardAdvice refuses one advice.
func (a *assembler) guardAdvice(arg int) {
	a.loadArg(arg)
	a.ifEqual(unix.MADV_GUARD_INSTALL, einval)
	a.ret(allow)
}

const noDevices = "files, pipes and sockets: the kernel lets anybody make the node of a whiteout, and landlock, which would not, is not everywhere"

// deviceMode refuses to make what is a device by the mode in an argument.
func (a *assembler) deviceMode(arg int) {
	const reserved = unix.S_IFCHR // the bit that S_IFCHR and S_IFBLK have, and S_IFLNK, which nobody makes this way
	a.loadArg(arg)
	a.ifAnyBit(reserved, eperm)
	a.ret(allow)
}

// Check is a system call that is allowed with some arguments only, and which.
type Check struct {
	Nr  uint32
	Why string
}

// Checks lists the calls that are allowed in part.
func Checks() []Check {
	var list []Check
	for _, c := range checks {
		list = append(list, Check{c.nr, c.why})
	}
	return list
}
