package inroot

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// hasFSIDs says whether the kernel knows ids for files alone. That of gVisor does
// not.
var hasFSIDs = sync.OnceValue(func() bool {
	_, _, errno := unix.RawSyscall(unix.SYS_SETFSUID, ^uintptr(0), 0, 0)
	return errno != unix.ENOSYS
})

// setEffective is set by the effective ids. Those of somebody else give no right
// to change groups, so root comes back before its groups do.
func (id Identity) setEffective(groups []int) error {
	user := func() error { return setThreadID(unix.SYS_SETRESUID, "setresuid", id.UID) }
	group := func() error { return setThreadID(unix.SYS_SETRESGID, "setresgid", id.GID) }
	all := func() error { return setThreadGroups(groups) }
	steps := []func() error{all, group, user}
	if id.UID == 0 {
		steps = []func() error{user, group, all}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// setThreadID changes an effective id of this thread; the real and the saved one
// stay, by which it can come back.
func setThreadID(call uintptr, name string, id int) error {
	const same = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(call, same, uintptr(id), same); errno != 0 {
		return os.NewSyscallError(name, errno)
	}
	return nil
}
