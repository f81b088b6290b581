package inroot

import (
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Info describes one file. Ids are those of this process's user namespace.
type Info struct {
	Mode     fs.FileMode
	Size     int64
	Modified time.Time
	UID, GID uint32
}

func infoOf(f *os.File) (Info, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return Info{}, pathError("stat", f.Name(), err)
	}
	return newInfo(&st), nil
}

// StatFile describes an opened file.
func StatFile(f *os.File) (Info, error) { return infoOf(f) }

// statEntry describes one entry of an opened directory, be it a link.
func statEntry(dir *os.File, name string) (Info, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return Info{}, pathError("stat", name, err)
	}
	return newInfo(&st), nil
}

func newInfo(st *unix.Stat_t) Info {
	return Info{Mode: fileMode(st.Mode), Size: st.Size, UID: st.Uid, GID: st.Gid,
		Modified: time.Unix(st.Mtim.Unix())}
}

// kinds are by what stat says in the four bits of S_IFMT.
var kinds = [16]fs.FileMode{
	unix.S_IFDIR >> 12: fs.ModeDir, unix.S_IFLNK >> 12: fs.ModeSymlink, unix.S_IFIFO >> 12: fs.ModeNamedPipe,
	unix.S_IFSOCK >> 12: fs.ModeSocket, unix.S_IFBLK >> 12: fs.ModeDevice, unix.S_IFCHR >> 12: fs.ModeDevice | fs.ModeCharDevice,
}

func fileMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode&0o777) | kinds[mode&unix.S_IFMT>>12]
	for _, flag := range []struct {
		bit  uint32
		mode fs.FileMode
	}{{unix.S_ISUID, fs.ModeSetuid}, {unix.S_ISGID, fs.ModeSetgid}, {unix.S_ISVTX, fs.ModeSticky}} {
		if mode&flag.bit != 0 {
			m |= flag.mode
		}
	}
	return m
}

// The magic numbers of file systems that other machines, or other programs,
// change without this kernel's knowing.
var network = []uint32{
	unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC,
	unix.SMB2_SUPER_MAGIC, unix.FUSE_SUPER_MAGIC, unix.V9FS_MAGIC,
}

// OnNetwork says whether a file's changes may happen where inotify cannot see.
func OnNetwork(f *os.File) (bool, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return false, pathError("statfs", f.Name(), err)
	}
	return slices.Contains(network, uint32(st.Type)), nil
}
