package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// shmBytes bounds the shared memory of a cell whose writes are on disk.
const shmBytes = 64 << 20

// MakeDisk makes the empty directory dir the place of a cell's writes. Files in
// it belong to the cell's ids.
func (h *Host) MakeDisk(dir string) error {
	for _, part := range []string{"u", "w"} {
		if err := os.Mkdir(filepath.Join(dir, part), 0o755); err != nil {
			return fmt.Errorf("confine: %w", err)
		}
	}
	if h.Identity.Single {
		return nil
	}
	uid, gid, err := h.Identity.ToHost(0, 0)
	if err != nil {
		return err
	}
	for _, part := range []string{"", "u", "w"} {
		if err := os.Chown(filepath.Join(dir, part), uid, gid); err != nil {
			return fmt.Errorf("confine: %w", err)
		}
	}
	return nil
}

// diskMount is the directory of a cell's writes as one more mount, the first.
// Its files have the cell's ids already, so it is not id-mapped.
func (h *Host) diskMount(dir string) (openMount, error) {
	m := openMount{Mount: Mount{Source: dir, Writable: true, directory: true}, disk: true}
	if h.Identity.Single {
		return m, nil
	}
	var err error
	m.fd, err = detach(dir, quiet)
	m.ours = err == nil
	return m, err
}

// detach clones a mount, with attributes, to a descriptor that scripts inherit.
func detach(source string, attributes uint64) (int, error) {
	low, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, fmt.Errorf("confine: open %s: %w", source, os.NewSyscallError("open_tree", err))
	}
	fd, err := unix.FcntlInt(uintptr(low), unix.F_DUPFD_CLOEXEC, inheritedFd)
	unix.Close(low)
	if err != nil {
		return -1, os.NewSyscallError("fcntl", err)
	}
	attr := unix.MountAttr{Attr_set: attributes, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("confine: open %s: %w", source, os.NewSyscallError("mount_setattr", err))
	}
	return fd, nil
}

// upper appends the place of the cell's writes: memory, or the disk that is the
// first of the mounts. It ends with the directories of an overlay.
func (s script) upper(mounts []openMount, size int64) {
	if onDisk(mounts) {
		s.Call(unix.SYS_MOVE_MOUNT, mountFd, s.String(""), here, s.String(stageUpper), unix.MOVE_MOUNT_F_EMPTY_PATH)
		return
	}
	options := fmt.Sprintf("size=%d,nr_inodes=%d,mode=755", size, size/4096+1024)
	s.mount("tmpfs", stageUpper, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options)
	s.mkdir(stageUpper+"/u", 0o755)
	s.mkdir(stageUpper+"/w", 0o755)
	s.mkdir(stageUpper+"/s", 0o1777)
}

// sharedMemory appends /dev/shm: in the memory of the cell's writes, and bounded
// with them, or in some of its own.
func (s script) sharedMemory(mounts []openMount) {
	target := stageRoot + "/dev/shm"
	if !onDisk(mounts) {
		s.bind(stageUpper+"/s", target)
		return
	}
	s.mount("tmpfs", target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%d,mode=1777", int64(shmBytes)))
}

func onDisk(mounts []openMount) bool { return len(mounts) > 0 && mounts[0].disk }

// RemoveDisk removes a directory that MakeDisk prepared, with everything that a
// cell left in it. The cell must have ended.
func RemoveDisk(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	// An ordinary user owns directories that the cell, or the overlay, closed.
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return os.Chmod(path, 0o700)
	})
	return errors.Join(err, os.RemoveAll(dir))
}
