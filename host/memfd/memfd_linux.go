package memfd

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Create makes such a file with the contents, one after another. Nobody can change
// it any more, so that it can be handed to another process.
func Create(name string, contents ...[]byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), name)
	for _, content := range contents {
		if _, err := file.Write(content); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	if err != nil {
		return nil, errors.Join(os.NewSyscallError("fcntl F_ADD_SEALS", err), file.Close())
	}
	return file, nil
}
