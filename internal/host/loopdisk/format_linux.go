package loopdisk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"aether/internal/bounded"
	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// Least is the smallest size of a disk. What an ext4 keeps for itself would
// leave next to nothing of a smaller one.
const Least = 2 << 20

// Options of every disk. No inode is written before it is used. One inode for each
// 8 KiB is twice what is usual: agents install packages of many small files.
var format = []string{"-q", "-F", "-b", "4096", "-I", "256", "-i", "8192", "-m", "0", "-E", "lazy_itable_init=1,nodiscard"}

// features are those of the file system. A disk that lives no longer than its cell has
// no journal to recover from.
const features = "none,extent,64bit,flex_bg,filetype,dir_index,dir_nlink,ext_attr,extra_isize,huge_file,large_file,sparse_super,metadata_csum"

// Format makes a file with an ext4 of the size, its own records included, in
// which stands what is in the directory contents. The file takes room on the
// host as it is written to, never more than the size. It must not exist. Errors:
// Unsupported, Exhausted.
func Format(ctx context.Context, file string, size int64, contents string) error {
	if size < Least {
		return tooSmall()
	}
	return run(ctx, file, size, "-O", features, "-d", contents)
}

// run makes the file and has the tool write a file system into it.
func run(ctx context.Context, file string, size int64, options ...string) error {
	tool, err := formatter()
	if err != nil {
		return err
	}
	if err := reserve(file, size); err != nil {
		return err
	}
	stderr := &bounded.Output{What: "what " + tool + " says", Max: maxSaid}
	cmd := exec.CommandContext(ctx, tool, slices.Concat(format, options, []string{file, strconv.FormatInt(size>>10, 10) + "k"})...)
	cmd.Stderr = stderr
	cmd.Env = []string{"LC_ALL=C", "MKE2FS_CONFIG=" + os.DevNull} // the same disk on every host
	if err := cmd.Run(); err != nil {
		return errors.Join(fmt.Errorf("loopdisk: %s: %w: %.400s", tool, err, bytes.TrimSpace(stderr.Bytes())), os.Remove(file))
	}
	return nil
}

// maxSaid bounds what is kept of the tool's complaints.
const maxSaid = 64 << 10

// reserve makes a file of a size without giving it any room yet.
func reserve(path string, size int64) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("loopdisk: %w", err)
	}
	err = enough(file, size)
	if err == nil {
		err = file.Truncate(size)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// enough refuses a disk that could not be filled even now. Disks that are made
// later, or others, may still take the room: nobody is told of a write that finds
// none, so what can be known is said before.
func enough(file *os.File, size int64) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &st); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	if left := int64(st.Bavail) * st.Bsize; left < size {
		return &sandbox.Error{Class: sandbox.Exhausted, Op: "loopdisk", Field: "limits.disk", Retry: true,
			Reason: fmt.Sprintf("the host's disk has %d bytes left, and a disk of %d is asked for", left, size),
			Remedy: "make room, or allow less"}
	}
	return nil
}

var toolDirs = []string{"/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin"}

// formatter finds mkfs.ext4, which is in no ordinary user's PATH.
func formatter() (string, error) {
	const name = "mkfs.ext4"
	for _, dir := range toolDirs {
		if tool := filepath.Join(dir, name); executable(tool) {
			return tool, nil
		}
	}
	if tool, err := exec.LookPath(name); err == nil {
		return tool, nil
	}
	return "", unsupported("this host has no "+name, "install e2fsprogs", nil)
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// unsupported is a host on which no disk can be made.
func unsupported(reason, remedy string, err error) error {
	return &sandbox.Error{Class: sandbox.Unsupported, Field: "limits.disk", Err: err,
		Reason: "what is written to disk cannot be bounded here: " + reason,
		Remedy: remedy + ", or keep the writes in memory, or state no bound"}
}

func tooSmall() error {
	return unsupported(fmt.Sprintf("a disk has at least %d bytes", Least), "allow as many", nil)
}
