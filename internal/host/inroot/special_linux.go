package inroot

import (
	"os"

	"golang.org/x/sys/unix"
)

// stored are the magic numbers of file systems whose files hold what was written to
// them. What any other shows may depend on who reads, at the time of reading. Device
// and inode numbers do not tell: /proc has both.
var stored = map[uint32]bool{
	unix.OVERLAYFS_SUPER_MAGIC: true, unix.TMPFS_MAGIC: true, unix.RAMFS_MAGIC: true, unix.EXT4_SUPER_MAGIC: true,
	unix.XFS_SUPER_MAGIC: true, unix.BTRFS_SUPER_MAGIC: true, unix.F2FS_SUPER_MAGIC: true, unix.SQUASHFS_MAGIC: true,
	unix.EROFS_SUPER_MAGIC_V1: true, unix.ISOFS_SUPER_MAGIC: true, unix.MSDOS_SUPER_MAGIC: true, unix.EXFAT_SUPER_MAGIC: true,
	unix.NFS_SUPER_MAGIC: true, unix.SMB_SUPER_MAGIC: true, unix.CIFS_SUPER_MAGIC: true, unix.SMB2_SUPER_MAGIC: true,
	unix.FUSE_SUPER_MAGIC: true, unix.V9FS_MAGIC: true, unix.CEPH_SUPER_MAGIC: true, unix.ECRYPTFS_SUPER_MAGIC: true,
	unix.REISERFS_SUPER_MAGIC: true, unix.HUGETLBFS_MAGIC: true, zfsMagic: true, bcachefsMagic: true,
	unix.UDF_SUPER_MAGIC: true,
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
	return !stored[uint32(st.Type)], nil
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
