package inroot

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Identity is whom the kernel takes for the one that reaches for files: ids of
// this process's user namespace.
type Identity struct{ UID, GID int }

// Do runs fn with the rights and ownership of the identity, no supplementary groups
// and no capabilities. fn must neither wait for other goroutines nor outlive the
// call. Only root can be somebody else; for any other process, and for an identity
// that is its own, fn simply runs.
//
// Who it is, is a property of the thread. fn runs on a thread of its own, which is
// thrown away if it cannot be given its old ids back. The effective ids change, not
// those for files alone: the kernel goes by the former where it tells who may read
// /proc/sys, and gives the owner of a sandbox's user namespace every right there.
func (id Identity) Do(fn func() error) error {
	if os.Geteuid() != 0 || id == (Identity{0, os.Getegid()}) {
		return fn()
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := id.become(fn)
		if !errors.Is(err, errTainted) {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// errTainted marks a thread that must not run anything else.
var errTainted = errors.New("inroot: the thread could not get its identity back")

func (id Identity) become(fn func() error) (err error) {
	groups, err := unix.Getgroups()
	if err != nil {
		return os.NewSyscallError("getgroups", err)
	}
	capable, err := threadCapabilities()
	if err != nil {
		return err
	}
	own := Identity{os.Geteuid(), os.Getegid()}
	defer func() {
		// The kernel gives root all that is permitted, which may be more than it had.
		if failed := errors.Join(own.set(groups), capable.set()); failed != nil {
			err = fmt.Errorf("%w: %w", errTainted, failed)
		}
	}()
	if err := id.set(nil); err != nil {
		return err
	}
	if id.UID != 0 { // the kernel does so by itself, unless it was told not to
		if err := capable.idle().set(); err != nil {
			return err
		}
	}
	return fn()
}

// set uses the raw calls because the wrappers of the standard library change every
// thread. The ids of somebody else give no right to change groups, so root comes back
// before its groups do.
func (id Identity) set(groups []int) error {
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
// stay, by which it can come back and by which nobody else may signal or trace it.
func setThreadID(call uintptr, name string, id int) error {
	const same = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(call, same, uintptr(id), same); errno != 0 {
		return os.NewSyscallError(name, errno)
	}
	return nil
}

func setThreadGroups(groups []int) error {
	ids := make([]uint32, len(groups)+1) // one more, so that there is an address
	for i, g := range groups {
		ids[i] = uint32(g)
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&ids[0])), 0)
	if errno != 0 {
		return os.NewSyscallError("setgroups", errno)
	}
	return nil
}
