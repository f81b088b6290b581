package layerfs

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Sparse makes a file of a size, of which the content is the runs, one after
// another; the rest are holes. It is readable by its owner only until Set. A
// content that ends too early is io.ErrUnexpectedEOF; errors of its reader are
// given back as they are.
func (t *Tree) Sparse(name string, size int64, runs []Run, content io.Reader) error {
	file, err := t.create(name)
	if err != nil {
		return err
	}
	return errors.Join(t.fill(file, name, size, runs, content), file.Close())
}

func (t *Tree) fill(file *os.File, name string, size int64, runs []Run, content io.Reader) error {
	for _, run := range runs {
		if _, err := file.Seek(run.Offset, io.SeekStart); err != nil {
			return fault("seek", name, errno(err))
		}
		n, err := io.CopyN(file, content, run.Length)
		if err == io.EOF && n < run.Length {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return writeFault(name, err)
		}
	}
	return fault("truncate", name, errno(file.Truncate(size)))
}

// Socket makes the node of a socket that nobody listens on.
func (t *Tree) Socket(name string) error {
	return t.place("mknod", name, func(parent int, base string) error {
		return unix.Mknodat(parent, base, unix.S_IFSOCK|0o600, 0)
	})
}

// errno finds the kernel's answer in an error of package os, which fault decides
// by.
func errno(err error) error {
	var number unix.Errno
	if errors.As(err, &number) {
		return number
	}
	return err
}
