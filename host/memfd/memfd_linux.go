package memfd

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Create makes such a file with the contents, one after another. Nobody can change
// it any more, so that it can be handed to another process.
func Create(name string, contents ...[]byte) (*os.File, error) {
	file, err := Blank(name, 0)
	if err != nil {
		return nil, err
	}
	for _, content := range contents {
		if _, err := file.Write(content); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	if err := Seal(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Blank makes such a file of a size, all zeros, that whoever has it can change.
func Blank(name string, size int64) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), name)
	if err := file.Truncate(size); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Seal keeps everybody from changing a file from now on, however it was or will be
// opened. A private mapping can still be written to, for oneself. It fails while
// anybody has mapped the file to change it.
func Seal(file *os.File) error {
	_, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	return os.NewSyscallError("fcntl F_ADD_SEALS", err)
}
