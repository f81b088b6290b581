package guestinit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mount is one file system that programs expect to find.
type mount struct {
	target, kind string
	flags        uintptr
	data         string
}

const quiet = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// early is needed to load modules and to find disks.
var early = []mount{
	{"/proc", "proc", quiet, ""},
	{"/sys", "sysfs", quiet, ""},
	{"/dev", "devtmpfs", unix.MS_NOSUID, "mode=755"},
}

// late is mounted on the root in which commands run.
var late = []mount{
	{"/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620,gid=5"},
	{"/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
	{"/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
	{"/tmp", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
}

// MountEarly mounts /proc, /sys and /dev where they are not mounted yet.
func MountEarly() error { return mountMissing(early) }

// MountLate mounts the rest that programs expect where it is not mounted yet. A
// bound in bytes holds for each that is writable; zero is the kernel's own.
func MountLate(bound int64) error {
	list := append([]mount(nil), late...)
	for i := range list {
		if bound > 0 && list[i].kind == "tmpfs" {
			list[i].data += fmt.Sprintf(",size=%d", bound)
		}
	}
	if err := mountMissing(list); err != nil {
		return err
	}
	return linkDevices()
}

// MountLateOnDisk is MountLate on a root that is on a disk, where temporary files are as well.
func MountLateOnDisk() error {
	const temporary = "/tmp"
	if err := os.Mkdir(temporary, 0); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.Chmod(temporary, os.ModeSticky|0o777); err != nil {
		return err
	}
	list := slices.DeleteFunc(slices.Clone(late), func(m mount) bool { return m.target == temporary })
	if err := mountMissing(list); err != nil {
		return err
	}
	return linkDevices()
}

func mountMissing(list []mount) error {
	for _, m := range list {
		there, err := isMountPoint(m.target)
		if err != nil {
			return err
		}
		if there {
			continue
		}
		if err := Mount(m.kind, m.target, m.kind, m.flags, m.data); err != nil {
			return err
		}
	}
	return nil
}

// Mount mounts a file system on a directory, which is made if it is missing.
func Mount(source, target, kind string, flags uintptr, data string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("machine: mount %s on %s: %w", kind, target, err)
	}
	return nil
}

// isMountPoint compares devices: a file system stands where its device differs
// from its parent's. /proc is not needed for that.
func isMountPoint(dir string) (bool, error) {
	var here, above unix.Stat_t
	if err := unix.Lstat(dir, &here); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return false, nil
		}
		return false, os.NewSyscallError("stat "+dir, err)
	}
	if err := unix.Lstat(filepath.Dir(dir), &above); err != nil {
		return false, os.NewSyscallError("stat "+filepath.Dir(dir), err)
	}
	return here.Dev != above.Dev, nil
}

// linkDevices makes the names in /dev that the kernel leaves to user space.
func linkDevices() error {
	for name, target := range map[string]string{
		"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, name); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	// The terminals of this instance, not those of the one that devtmpfs knows.
	if err := os.Remove("/dev/ptmx"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink("pts/ptmx", "/dev/ptmx")
}

// MountGroups mounts the unified cgroup hierarchy and makes one group in it for
// commands, with a bound on their number, or none for zero. Empty is answered by
// kernels that have no such hierarchy, unless a bound was asked for.
func MountGroups(processes int64) (dir string, err error) {
	const root = "/sys/fs/cgroup"
	if err := unix.Mount("cgroup2", root, "cgroup2", quiet, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		if processes == 0 && (errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT)) {
			return "", nil
		}
		return "", fmt.Errorf("machine: mount cgroup2: %w", err)
	}
	if err := enable(root, processes > 0); err != nil {
		return "", err
	}
	dir = filepath.Join(root, "commands")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if processes > 0 {
		err = os.WriteFile(filepath.Join(dir, "pids.max"), fmt.Appendf(nil, "%d\n", processes), 0)
	}
	return dir, err
}

// enable turns on what this kernel has of the two controllers that are used.
func enable(root string, bounded bool) error {
	text, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return err
	}
	has := map[string]bool{}
	for _, name := range strings.Fields(string(text)) {
		has[name] = true
	}
	if bounded && !has["pids"] {
		return errors.New("machine: this kernel cannot bound the number of processes")
	}
	for _, name := range []string{"memory", "pids"} {
		if !has[name] {
			continue
		}
		if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+name), 0); err != nil {
			return err
		}
	}
	return nil
}
