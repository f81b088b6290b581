package blocklayer

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// New makes the file of an empty layer in a directory, in which it has no name, and opens it
// once more for reading only.
func New(dir string, size int64) (write, read *os.File, err error) {
	if write, err = os.CreateTemp(dir, ".layer-"); err != nil {
		return nil, nil, err
	}
	read, err = os.Open(write.Name())
	err = errors.Join(err, os.Remove(write.Name()), write.Truncate(Length(size)))
	if err != nil {
		return nil, nil, errors.Join(err, write.Close(), read.Close())
	}
	return write, read, nil
}

// Unchanging says whether nobody can write to a file, which has no name and is opened for
// reading only: the kernel gives a lease for reading on no other. Nobody holds it afterwards.
func Unchanging(file *os.File) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		if _, failed = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK); failed == nil {
			_, failed = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK)
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("blocklayer: a layer may still be written to: %w", err)
	}
	return nil
}

// Merge writes all that a disk holds, as the base of another, to an empty file. Of the layers
// the last may be an uppermost, that has noted what it holds.
func Merge(to, base *os.File, layers []*os.File) error {
	if len(layers) == 0 {
		return ErrFiles
	}
	last := len(layers) - 1
	d, err := Open(base, layers[:last], layers[last])
	if err != nil {
		return err
	}
	if err := to.Truncate(d.size); err != nil {
		return err
	}
	const step = 256 << 10
	var zero [step]byte
	buffer := make([]byte, step)
	for at := int64(0); at < d.size; at += step {
		if at, err = d.nextData(at, step); err != nil || at >= d.size {
			return err
		}
		part := buffer[:min(step, d.size-at)]
		if _, err := d.ReadAt(part, at); err != nil {
			return err
		}
		if bytes.Equal(part, zero[:len(part)]) {
			continue
		}
		if _, err := to.WriteAt(part, at); err != nil {
			return err
		}
	}
	return nil
}

// nextData passes over what no layer holds and of which the base has nothing.
func (d *Disk) nextData(at, step int64) (int64, error) {
	base, err := d.base.Seek(at, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		base, err = d.size, nil
	}
	if err != nil {
		return 0, err
	}
	for ; at < d.size && base >= at+step; at += step {
		for n := at / Block; n < min(at+step, d.size)/Block; n++ {
			if d.owner[n] != 0 {
				return at, nil
			}
		}
	}
	return at, nil
}
