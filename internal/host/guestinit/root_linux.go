package guestinit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Root is where the files of a machine come from.
type Root struct {
	// Device is a disk with a file system of the Type, read-only.
	Device string `json:"device"`
	Type   string `json:"type"`
	// UpperBytes bounds what can be written over it, which is kept in memory.
	// Zero is the kernel's own bound, half of the memory.
	UpperBytes int64 `json:"upper_bytes,omitempty"`
	// Upper is another disk, with an ext4, that it is kept on instead.
	Upper string `json:"upper,omitempty"`
}

// deviceTime is how long a disk may take to appear.
const deviceTime = 30 * time.Second

// stage is where the new root is put together.
const (
	stage     = "/aether-root"
	mergedDir = stage + "/merged"
)

// plain has an overlay keep what is written where it was written, and whole: it can be
// read without the overlay then.
const plain = ",redirect_dir=off,metacopy=off"

// SwitchRoot makes an overlay of the disk and of memory the root of this process
// and removes the files of the old one, which only take memory from now on. It gives the
// directory of what is written, which has no name any more.
func SwitchRoot(root Root) (*os.File, error) {
	upper, err := mountRoot(root)
	if err != nil {
		return nil, err
	}
	if err := enter(mergedDir); err != nil {
		return nil, errors.Join(err, upper.Close())
	}
	return upper, nil
}

func mountRoot(root Root) (*os.File, error) {
	lower, upper := stage+"/lower", stage+"/upper"
	if err := awaitDevice(root.Device); err != nil {
		return nil, err
	}
	if err := Mount(root.Device, lower, root.Type, unix.MS_RDONLY|unix.MS_NODEV, ""); err != nil {
		return nil, err
	}
	if err := root.mountUpper(upper); err != nil {
		return nil, err
	}
	for _, dir := range []string{upper + "/data", upper + "/work"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
	}
	options := "lowerdir=" + lower + ",upperdir=" + upper + "/data,workdir=" + upper + "/work" + plain
	if err := Mount("overlay", mergedDir, "overlay", 0, options); err != nil {
		return nil, err
	}
	return os.Open(upper + "/data")
}

// mountUpper mounts what is written over the disk.
func (root Root) mountUpper(at string) error {
	if root.Upper != "" {
		if err := awaitDevice(root.Upper); err != nil {
			return err
		}
		return Mount(root.Upper, at, "ext4", unix.MS_NOATIME, "")
	}
	data := "mode=755"
	if root.UpperBytes > 0 {
		data += fmt.Sprintf(",size=%d", root.UpperBytes)
	}
	return Mount("tmpfs", at, "tmpfs", 0, data)
}

func awaitDevice(device string) error {
	for deadline := time.Now().Add(deviceTime); ; time.Sleep(5 * time.Millisecond) {
		_, err := os.Stat(device)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("machine: the disk %s does not appear: %w", device, err)
		}
	}
}

// enter makes dir the root. The initial file system of a kernel can be covered,
// not replaced: pivot_root does not work on it.
func enter(dir string) error {
	for _, m := range early {
		if err := moveMount(m.target, filepath.Join(dir, m.target)); err != nil {
			return err
		}
	}
	old, err := os.Open("/")
	if err != nil {
		return err
	}
	defer old.Close()
	for _, step := range []func() error{
		func() error { return unix.Chdir(dir) },
		func() error { return unix.Mount(".", "/", "", unix.MS_MOVE, "") },
		func() error { return unix.Chroot(".") },
		func() error { return unix.Chdir("/") },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("machine: make %s the root: %w", dir, err)
		}
	}
	return discard(old)
}

func moveMount(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("machine: move %s: %w", from, err)
	}
	return nil
}

// discard removes what is left on the initial file system, and only there: other
// file systems that are still mounted below it are the new root's.
func discard(old *os.File) error {
	var at unix.Stat_t
	if err := unix.Fstat(int(old.Fd()), &at); err != nil {
		return err
	}
	var fsInfo unix.Statfs_t
	if err := unix.Fstatfs(int(old.Fd()), &fsInfo); err != nil {
		return err
	}
	if fsInfo.Type != unix.TMPFS_MAGIC && fsInfo.Type != unix.RAMFS_MAGIC {
		return nil // not in memory: somebody's disk
	}
	return removeBelow(int(old.Fd()), at.Dev)
}

// removeBelow works through descriptors: paths lead to the new root by now.
func removeBelow(dir int, device uint64) error {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	handle := os.NewFile(uintptr(fd), "initial root")
	defer handle.Close()
	entries, err := handle.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := removeOne(fd, entry, device); err != nil {
			return err
		}
	}
	return nil
}

func removeOne(dir int, entry fs.DirEntry, device uint64) error {
	if !entry.IsDir() {
		return os.NewSyscallError("unlink "+entry.Name(), unix.Unlinkat(dir, entry.Name(), 0))
	}
	fd, err := unix.Openat(dir, entry.Name(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return os.NewSyscallError("open "+entry.Name(), err)
	}
	defer unix.Close(fd)
	var at unix.Stat_t
	if err := unix.Fstat(fd, &at); err != nil || uint64(at.Dev) != device {
		return err
	}
	if err := removeBelow(fd, device); err != nil {
		return err
	}
	err = unix.Unlinkat(dir, entry.Name(), unix.AT_REMOVEDIR)
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOTEMPTY) {
		return nil // it holds a mount
	}
	return os.NewSyscallError("rmdir "+entry.Name(), err)
}
