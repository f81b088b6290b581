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

// Do runs fn with the file permissions and ownership of the identity and no
// supplementary groups. fn must neither wait for other goroutines nor outlive
// the call. Only root can be somebody else; for any other process, and for an
// identity that is its own, fn simply runs.
//
// The file system ids are a property of the thread. fn runs on a thread of its
// own, which is thrown away if it cannot be given its old ids back.
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
	own := Identity{os.Geteuid(), os.Getegid()}
	defer func() {
		if failed := own.set(groups); failed != nil {
			err = fmt.Errorf("%w: %w", errTainted, failed)
		}
	}()
	if err := id.set(nil); err != nil {
		return err
	}
	return fn()
}

// set uses the raw calls because the wrappers of the standard library change
// every thread. The group goes first and the user last when privilege is given
// up; setfsuid never takes the right to undo it away.
func (id Identity) set(groups []int) error {
	if !hasFSIDs() {
		return id.setEffective(groups)
	}
	if err := setThreadGroups(groups); err != nil {
		return err
	}
	if err := setFS(unix.SYS_SETFSGID, id.GID); err != nil {
		return err
	}
	return setFS(unix.SYS_SETFSUID, id.UID)
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

// setFS sets one id and asks for it again, since these calls report no errors.
func setFS(call uintptr, id int) error {
	unix.RawSyscall(call, uintptr(id), 0, 0)
	if now, _, _ := unix.RawSyscall(call, ^uintptr(0), 0, 0); int(int32(now)) != id && int(uint32(now)) != id {
		return fmt.Errorf("inroot: the file system id stayed %d, wanted %d", now, id)
	}
	return nil
}
