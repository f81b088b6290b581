package confine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"aether/internal/host/loopdisk"
	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// shmBytes bounds the shared memory of a cell whose writes are on disk.
const shmBytes = 64 << 20

// MakeDisk makes the empty directory dir the place of a cell's writes. The cell that
// is made with it owns it.
func (h *Host) MakeDisk(dir string) error {
	for _, part := range []string{"u", "w"} {
		if err := os.Mkdir(filepath.Join(dir, part), 0o755); err != nil {
			return fmt.Errorf("confine: %w", err)
		}
	}
	return nil
}

// giveDisk makes the cell the owner of its disk, which is empty.
func (c *Cell) giveDisk(mount int) error {
	for _, part := range []string{".", "u", "w"} {
		if err := unix.Fchownat(mount, part, c.identity.base, c.identity.base, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("confine: give the disk away: %w", os.NewSyscallError("fchownat", err))
		}
	}
	return nil
}

// diskFile holds the file system of a disk that is bounded.
const diskFile = "disk"

// BoundsDisks says whether MakeBoundedDisk can be used here. Errors: Unsupported.
func (h *Host) BoundsDisks(size int64) error {
	if h.Identity.Single {
		return &sandbox.Error{Class: sandbox.Unsupported, Field: "limits.disk",
			Reason: "what an ordinary user's cell writes to disk cannot be bounded",
			Remedy: "run aether as root, or keep the writes in memory, or state no bound"}
	}
	return loopdisk.Supported(size)
}

// DefaultDisk is what a disk in dir is bounded by if nothing else is said: most, or
// half of what is left there if that is less, or 0 if disks cannot be bounded here.
func (h *Host) DefaultDisk(dir string, most int64) int64 {
	const unit = 4096 // of an ext4
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0
	}
	bound := min(most, int64(st.Bavail)*st.Bsize/2) / unit * unit
	if h.BoundsDisks(bound) != nil {
		return 0
	}
	return bound
}

// MakeBoundedDisk is MakeDisk for a cell that may take no more than size bytes of
// the host's disk, what its file system keeps for itself included.
func (h *Host) MakeBoundedDisk(ctx context.Context, dir string, size int64) error {
	if err := h.BoundsDisks(size); err != nil {
		return err
	}
	contents := filepath.Join(dir, "contents")
	if err := os.Mkdir(contents, 0o755); err != nil {
		return fmt.Errorf("confine: %w", err)
	}
	err := h.MakeDisk(contents)
	if err == nil {
		err = loopdisk.Format(ctx, filepath.Join(dir, diskFile), size, contents)
	}
	return errors.Join(err, os.RemoveAll(contents))
}

// diskMount opens the directory of a cell's writes as a mount. Its files have the
// cell's ids, so it is not id-mapped.
func (c *Cell) diskMount(dir string) (int, error) {
	bounded := filepath.Join(dir, diskFile)
	var fd int
	_, err := os.Lstat(bounded)
	if err == nil {
		fd, err = mountDisk(bounded)
	} else if errors.Is(err, fs.ErrNotExist) {
		fd, err = detach(dir, quiet)
	}
	if err != nil {
		return -1, err
	}
	if err := c.giveDisk(fd); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// mountDisk mounts a bounded disk. The mount ends with the cell that it is moved into.
func mountDisk(file string) (int, error) {
	mount, err := loopdisk.Mount(file)
	if err != nil {
		return -1, err
	}
	defer mount.Close()
	fd, err := unix.FcntlInt(mount.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	return fd, os.NewSyscallError("fcntl", err)
}

// upper appends the place of the cell's writes: memory, or the disk that is the
// first of the mounts. It ends with the directories of an overlay.
func (s script) upper(c *Cell, mounts []openMount) {
	switch size := c.config.Upper; {
	case onDisk(mounts):
		s.Call(unix.SYS_MOVE_MOUNT, mountFd, s.String(""), here, s.String(stageUpper), unix.MOVE_MOUNT_F_EMPTY_PATH)
	case c.identity.Single:
		options := fmt.Sprintf("size=%d,nr_inodes=%d,mode=755", size, memoryFiles(size))
		s.mount("tmpfs", stageUpper, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options)
		for _, place := range writePlaces {
			s.mkdir(stageUpper+"/"+place.name, uintptr(place.mode))
		}
	}
	if !c.identity.Single {
		s.showOwn(c, mounts)
	}
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

// Usage says how many bytes the cell has written and how many it still may: none
// where it can make no more files. Of a disk without a bound it speaks of the whole
// file system that this is on.
func (c *Cell) Usage() (written, left int64, err error) {
	root, err := c.Root()
	if err != nil {
		return 0, 0, err
	}
	defer root.Close()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(root.Fd()), &st); err != nil {
		return 0, 0, os.NewSyscallError("fstatfs", err)
	}
	// A part of what is free on a disk is kept for its own records.
	written, left = int64(st.Blocks-st.Bfree)*st.Bsize, int64(st.Bavail)*st.Bsize
	if st.Ffree == 0 {
		left = 0
	}
	return written, left, nil
}
