package confine

import (
	"errors"
	"os"
	"strconv"

	"aether/internal/host/memoryfs"

	"golang.org/x/sys/unix"
)

// ownFiles makes the file system in memory that a cell of root's has for itself, as a
// mount: its devices, what covers parts of /proc, and the place of its writes, unless that
// is on disk. They are one file system because the kernel counts each for each control
// group, and waits for all processors when one ends. It is this program that makes it:
// devices cannot be opened on what a user namespace has mounted.
func (c *Cell) ownFiles() (mount int, err error) {
	if mount, err = memoryfs.New(unix.MOUNT_ATTR_NOSUID, c.memoryOptions()...); err == nil {
		if err = c.fill(mount); err == nil {
			return mount, nil
		}
		err = errors.Join(err, unix.Close(mount))
	}
	return -1, &Fault{Part: partStage, Err: err}
}

// memoryOptions bound the file system by what the cell may write.
func (c *Cell) memoryOptions() [][2]string {
	size := int64(64 << 10)
	if c.config.Disk == "" {
		size = c.config.Upper
	}
	return [][2]string{{"size", strconv.FormatInt(size, 10)}, {"nr_inodes", strconv.FormatInt(memoryFiles(size), 10)}, {"mode", "755"}}
}

// memoryFiles is how many files there may be in so much memory.
func memoryFiles(size int64) int64 { return size/4096 + 1024 }

// fill is for a thread that has a mask of its own for the modes of files.
func (c *Cell) fill(mount int) error {
	defer unix.Umask(unix.Umask(0))
	for _, place := range ownPlaces {
		if err := unix.Mkdirat(mount, place, 0o755); err != nil {
			return &os.PathError{Op: "mkdir", Path: place, Err: err}
		}
	}
	if err := unix.Mknodat(mount, "empty", unix.S_IFREG|0o644, 0); err != nil {
		return &os.PathError{Op: "mknod", Path: "empty", Err: err}
	}
	if err := memoryfs.MakeDevices(mount, "dev"); err != nil {
		return err
	}
	for _, link := range ownLinks {
		if err := unix.Symlinkat(link[0], mount, "dev/"+link[1]); err != nil {
			return &os.PathError{Op: "symlink", Path: "/dev/" + link[1], Err: err}
		}
	}
	if c.config.Disk != "" {
		return nil
	}
	return c.fillWrites(mount)
}

// writePlaces are the directories of an overlay's upper layer, and of shared memory.
var writePlaces = []struct {
	name string
	mode uint32
}{{"u", 0o755}, {"w", 0o755}, {"s", 0o1777}}

// fillWrites makes the places of the cell's writes, which the cell owns.
func (c *Cell) fillWrites(mount int) error {
	for _, place := range writePlaces {
		err := unix.Mkdirat(mount, place.name, place.mode)
		if err == nil {
			err = unix.Fchownat(mount, place.name, c.identity.base, c.identity.base, unix.AT_SYMLINK_NOFOLLOW)
		}
		if err != nil {
			return &os.PathError{Op: "mkdir", Path: place.name, Err: err}
		}
	}
	return nil
}

// showOwn appends the showing of the file system that ownFiles made: its devices for
// reading, and its writes where an ordinary user's cell mounts one for them.
func (s script) showOwn(c *Cell, mounts []openMount) {
	s.place(uintptr(mountFd+c.base.tree.shown(mounts)-1), stageOwn)
	if !onDisk(mounts) {
		s.bind(stageOwn, stageUpper)
		s.setattr(here, stageUpper, 0, quiet)
	}
	s.setattr(here, stageOwn, 0, ownAttributes)
}
