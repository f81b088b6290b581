package cgroup

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// unifiedMount is where hybrid hosts mount version 2 beside version 1.
const unifiedMount = "/sys/fs/cgroup/unified"

// HideUnified gives the calling thread a mount namespace of its own in which a
// hybrid host looks like one with version 1 only: crun refuses to run on hybrid
// ones. An empty file system takes the place, for crun makes directories there.
func HideUnified() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	mounts, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil || !strings.Contains(string(mounts), " "+unifiedMount+" ") {
		return err
	}
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("mount", err)
	}
	if err := unix.Unmount(unifiedMount, unix.MNT_DETACH); err != nil {
		return os.NewSyscallError("umount", err)
	}
	return os.NewSyscallError("mount", unix.Mount("none", unifiedMount, "tmpfs", 0, "size=16m,mode=755"))
}
