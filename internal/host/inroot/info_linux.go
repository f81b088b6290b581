package inroot

import (
	"io/fs"
	"os"
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

var kinds = map[uint32]fs.FileMode{
	unix.S_IFDIR: fs.ModeDir, unix.S_IFLNK: fs.ModeSymlink, unix.S_IFIFO: fs.ModeNamedPipe,
	unix.S_IFSOCK: fs.ModeSocket, unix.S_IFBLK: fs.ModeDevice, unix.S_IFCHR: fs.ModeDevice | fs.ModeCharDevice,
}

func fileMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode&0o777) | kinds[mode&unix.S_IFMT]
	for bit, flag := range map[uint32]fs.FileMode{unix.S_ISUID: fs.ModeSetuid, unix.S_ISGID: fs.ModeSetgid, unix.S_ISVTX: fs.ModeSticky} {
		if mode&bit != 0 {
			m |= flag
		}
	}
	return m
}

// The magic numbers of file systems that other machines, or other programs,
// change without this kernel's knowing.
var network = map[uint32]bool{
	unix.NFS_SUPER_MAGIC: true, unix.SMB_SUPER_MAGIC: true, unix.CIFS_SUPER_MAGIC: true,
	unix.SMB2_SUPER_MAGIC: true, unix.FUSE_SUPER_MAGIC: true, unix.V9FS_MAGIC: true,
}

// OnNetwork says whether a file's changes may happen where inotify cannot see.
func OnNetwork(f *os.File) (bool, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return false, pathError("statfs", f.Name(), err)
	}
	return network[uint32(st.Type)], nil
}
