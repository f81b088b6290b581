package blockdev

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"aether/sandbox"
)

// FileSystem is a file system that processes read and may write.
type FileSystem struct {
	Path   string // where it is seen, for messages
	Type   string // as the kernel spells it
	Device uint64
}

// kinds are the types that are told apart by the number that statfs gives.
var kinds = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.F2FS_SUPER_MAGIC: "f2fs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.FUSE_SUPER_MAGIC: "fuse", unix.NFS_SUPER_MAGIC: "nfs", unix.V9FS_MAGIC: "9p",
	unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "ramfs", unix.SQUASHFS_MAGIC: "squashfs", unix.EROFS_SUPER_MAGIC_V1: "erofs",
	0x2fc12fc1: "zfs",
}

// inMemory are types that are on no disk.
var inMemory = []string{"tmpfs", "ramfs", "devtmpfs", "devpts", "proc", "sysfs", "mqueue", "cgroup", "cgroup2"}

// attributed is the type of which every file is on one device, and for which it was
// seen that the kernel attributes each request to the group of the process that
// caused it: reads, and with version 2 of control groups also writes that are
// carried out later. Others do so too; none is taken on trust.
const attributed = "ext4"

// At is the file system that an open file is in; path is where it is seen.
func At(file *os.File, path string) (f FileSystem, err error) {
	var kind unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &kind); err != nil {
		return f, fmt.Errorf("blockdev: %s: %w", path, os.NewSyscallError("fstatfs", err))
	}
	var node unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &node); err != nil {
		return f, fmt.Errorf("blockdev: %s: %w", path, os.NewSyscallError("fstat", err))
	}
	name, known := kinds[int64(kind.Type)]
	if !known {
		name = fmt.Sprintf("a file system of the kind %#x", kind.Type)
	}
	return FileSystem{Path: path, Type: name, Device: node.Dev}, nil
}

// Disks are the disks below file systems, each once; written says that it matters
// who writes. Errors: Unavailable for a file system on which the kernel does not hold
// processes to a rate, or of which that is not known.
func Disks(list []FileSystem, written bool) (disks []Disk, err error) {
	for _, f := range list {
		if slices.Contains(inMemory, f.Type) {
			continue
		}
		disk, err := f.disk(written)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(disks, disk) {
			disks = append(disks, disk)
		}
	}
	return disks, nil
}

func (f FileSystem) disk(written bool) (Disk, error) {
	if f.Type != attributed {
		return Disk{}, f.unbounded("it is on "+f.Type, nil)
	}
	if written {
		journal, err := journalsData(f.Device)
		if err != nil || journal {
			return Disk{}, f.unbounded("its data is, or may be, written by the journal (data=journal)", err)
		}
	}
	disk, err := whole(sysfs, f.Device)
	if err != nil {
		return disk, f.unbounded("its disk is not known", err)
	}
	return disk, nil
}

func (f FileSystem) unbounded(why string, err error) error {
	return &sandbox.Error{Class: sandbox.Unavailable, Err: err, Reason: "the rate of " + f.Path + " cannot be bounded: " + why,
		Remedy: "keep it on an ext4 with data=ordered, or in memory, or leave the limit unset"}
}

// journalsData says whether an ext4 has its journal write the data of files too,
// which is then attributed to nobody.
func journalsData(device uint64) (bool, error) {
	link, err := os.Readlink(sysfs + Disk{unix.Major(device), unix.Minor(device)}.String())
	if err != nil {
		return false, err
	}
	text, err := os.ReadFile("/proc/fs/ext4/" + path.Base(link) + "/options")
	return slices.Contains(strings.Fields(string(text)), "data=journal"), err
}

// Mounted are the file systems in the text of a mountinfo file. own says which of
// the overlays are the caller's, by their options: what is below those is left to
// the caller.
func Mounted(mountinfo string, own func(options string) bool) (list []FileSystem) {
	for line := range strings.Lines(mountinfo) {
		before, after, found := strings.Cut(line, " - ")
		fixed, kind := strings.Fields(before), strings.Fields(after)
		if !found || len(fixed) < 6 || len(kind) < 3 || kind[0] == "overlay" && own(kind[2]) {
			continue
		}
		f := FileSystem{Path: fixed[4], Type: kind[0]}
		var major, minor uint32
		if _, err := fmt.Sscanf(fixed[2], "%d:%d", &major, &minor); err == nil {
			f.Device = unix.Mkdev(major, minor)
		}
		list = append(list, f)
	}
	return list
}
