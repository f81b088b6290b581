package layerfs

import (
	"fmt"

	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// fault says whose fault a failed system call is: names and links come from the
// layer, room and abilities from the host. A nil err stays nil.
func fault(op, name string, err error) error {
	if err == nil {
		return nil
	}
	failure := &sandbox.Error{Op: "layerfs: " + op, Err: err, Reason: fmt.Sprintf("%.200q", name)}
	switch err {
	case unix.ENOENT, unix.ENOTDIR, unix.EISDIR, unix.EEXIST, unix.ELOOP, unix.ENAMETOOLONG, unix.EINVAL, unix.EXDEV, unix.EMLINK, unix.EILSEQ, unix.ERANGE, unix.E2BIG:
		failure.Class, failure.Field = sandbox.Invalid, "image"
	case unix.ENOSPC, unix.EDQUOT:
		failure.Class, failure.Remedy = sandbox.Exhausted, "free space on the disk of the image store"
	case unix.EPERM, unix.ENOSYS:
		failure.Class, failure.Remedy = sandbox.Unavailable, "allow the system calls openat2 and mknodat, and the whiteout device 0/0"
	case unix.ENOTSUP:
		failure.Class, failure.Remedy = sandbox.Unavailable, "put the image store on a file system with user attributes, as ext4, xfs or btrfs"
	}
	return failure
}
