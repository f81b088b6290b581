//go:build unix

package storedir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"aether/sandbox"
)

// ReadPrivate reads a file that belongs to this user, that no other may read or write and
// that has so many bytes. Errors: Denied for any other; fs.ErrNotExist.
func ReadPrivate(path string, size int64) (contents []byte, err error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, notPrivate(path, putBack, "it is a link")
	}
	if err != nil {
		return nil, fmt.Errorf("storedir: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("storedir: %w", err)
	}
	if err := private(path, info, size); err != nil {
		return nil, err
	}
	contents = make([]byte, size)
	if _, err := io.ReadFull(file, contents); err != nil {
		return nil, fmt.Errorf("storedir: %w", err)
	}
	return contents, nil
}

func private(path string, info fs.FileInfo, size int64) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return fmt.Errorf("storedir: the owner of %s cannot be read", path)
	case !info.Mode().IsRegular():
		return notPrivate(path, putBack, "it is not a file")
	case int(stat.Uid) != os.Geteuid():
		return notPrivate(path, fmt.Sprintf("see who wrote it, then: chown %d", os.Geteuid()), "it belongs to the user %d", stat.Uid)
	case info.Mode().Perm()&0o077 != 0:
		return notPrivate(path, "see who read it, then: chmod 600", "its mode is %04o", info.Mode().Perm())
	case info.Size() != size:
		return notPrivate(path, putBack, "it has %d bytes and not %d", info.Size(), size)
	}
	return nil
}

const putBack = "put back the file that was there"

func notPrivate(path, remedy, format string, args ...any) error {
	return &sandbox.Error{Class: sandbox.Denied, Op: "storedir: " + filepath.Base(path), Reason: fmt.Sprintf(format, args...), Remedy: remedy}
}
