package inroot

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// stored are the magic numbers of file systems whose files hold what was written to
// them. What any other shows may depend on who reads, at the time of reading. Device
// and inode numbers do not tell: /proc has both.
var stored = []uint32{
	unix.OVERLAYFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.EXT4_SUPER_MAGIC,
	unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.SQUASHFS_MAGIC,
	unix.EROFS_SUPER_MAGIC_V1, unix.ISOFS_SUPER_MAGIC, unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC,
	unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC,
	unix.FUSE_SUPER_MAGIC, unix.V9FS_MAGIC, unix.CEPH_SUPER_MAGIC, unix.ECRYPTFS_SUPER_MAGIC,
	unix.REISERFS_SUPER_MAGIC, unix.HUGETLBFS_MAGIC, zfsMagic, bcachefsMagic,
	unix.UDF_SUPER_MAGIC,
}

// Magic numbers of file systems that are not the kernel's own, or newer than our words
// for them.
const zfsMagic, bcachefsMagic = 0x2fc12fc1, 0xca451a4e

// Special says that a file is not one that holds what was written to it, as those of
// /proc. What is read of one must be read with the rights of whoever asks, not only
// opened with them.
func Special(f *os.File) (special bool, err error) {
	var st unix.Statfs_t
	if err := control(f, func(fd int) error { return unix.Fstatfs(fd, &st) }); err != nil {
		return false, pathError("statfs", f.Name(), err)
	}
	return !slices.Contains(stored, uint32(st.Type)), nil
}

// ReadAs reads a file with the rights of an identity.
type ReadAs struct {
	File *os.File
	As   Identity
}

// Read implements io.Reader.
func (r ReadAs) Read(b []byte) (n int, err error) {
	err = r.As.Do(func() (err error) {
		n, err = r.File.Read(b)
		return err
	})
	return n, err
}
