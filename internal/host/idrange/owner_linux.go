package idrange

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// secbitNoSetuidFixup has a change of user leave the thread's capabilities as they are.
const secbitNoSetuidFixup = 1 << 2

// needed are the capabilities by which root does what it does with sandboxes that are
// not in its name. Who makes a user namespace has all of them there, but no other.
var needed = []uint{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID,
	unix.CAP_SETPCAP, unix.CAP_NET_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_SYS_PTRACE, unix.CAP_SYS_ADMIN}

// KeepRights lets the calling thread, which must be root's and never go back to Go's
// scheduler, act in the name of another and keep its rights. It says no for a root who
// lacks what that takes.
func KeepRights() bool {
	for _, c := range needed {
		if !Capable(c) {
			return false
		}
	}
	return unix.Prctl(unix.PR_SET_SECUREBITS, secbitNoSetuidFixup, 0, 0, 0) == nil
}

// InNameOf runs fn with another effective user id, on a thread that has kept its rights.
// The kernel counts what is in a user namespace for the user who made it, too.
func InNameOf(id int, fn func() error) error {
	if err := effective(id); err != nil {
		return err
	}
	return errors.Join(fn(), effective(0))
}

// effective changes the id of this thread alone.
func effective(id int) error {
	const same = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(id), same); errno != 0 {
		return os.NewSyscallError("setresuid", errno)
	}
	return nil
}

// Capable says whether this thread has a capability in force.
func Capable(c uint) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[c/32].Effective&(1<<(c%32)) != 0
}
