package upperdir

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"aether/internal/host/inroot"

	"golang.org/x/sys/unix"
)

// as runs fn as one whose new files belong to the identity, with every right of
// root all the same: a file system of a user namespace takes no files from ids
// that it does not have. Only root can be somebody else.
func as(id inroot.Identity, fn func() error) (err error) {
	if os.Geteuid() != 0 || id == (inroot.Identity{UID: 0, GID: os.Getegid()}) {
		return fn()
	}
	runtime.LockOSThread()
	defer func() {
		// The thread is not used again if it could not become itself.
		if failed := setFS(inroot.Identity{UID: 0, GID: os.Getegid()}); failed != nil {
			err = errors.Join(err, failed)
			return
		}
		runtime.UnlockOSThread()
	}()
	keep, err := effective()
	if err != nil {
		return err
	}
	if err := setFS(id); err != nil {
		return err
	}
	if err := keep(); err != nil {
		return err
	}
	return fn()
}

// setFS uses the raw calls, which change this thread alone, and asks for the
// result, since these calls report no errors.
func setFS(id inroot.Identity) error {
	for _, set := range []struct {
		call uintptr
		id   int
	}{{unix.SYS_SETFSGID, id.GID}, {unix.SYS_SETFSUID, id.UID}} {
		unix.RawSyscall(set.call, uintptr(set.id), 0, 0)
		if now, _, _ := unix.RawSyscall(set.call, ^uintptr(0), 0, 0); int(uint32(now)) != set.id {
			return fmt.Errorf("upper: the file system id stayed %d, wanted %d", now, set.id)
		}
	}
	return nil
}

// effective remembers the thread's capabilities, some of which go with the file
// system id of root, and gives what brings them back.
func effective() (keep func() error, err error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return nil, os.NewSyscallError("capget", err)
	}
	return func() error { return os.NewSyscallError("capset", unix.Capset(&header, &data[0])) }, nil
}
