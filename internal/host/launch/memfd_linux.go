package launch

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// SealedFile makes a file in memory with the contents, one after another. It has no
// name: whoever has the descriptor has the file, and nothing is left when the last
// one is closed. Nobody can change it any more, so that it can be handed to another
// process.
func SealedFile(name string, contents ...[]byte) (*os.File, error) {
	file, err := MemoryFile(name, 0)
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

// MemoryFile makes a file in memory of a size, all zeros, that whoever has it can change.
func MemoryFile(name string, size int64) (*os.File, error) {
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

// Sealed says whether nobody can change a file any more.
func Sealed(file *os.File) bool {
	const all = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	seals, err := unix.FcntlInt(file.Fd(), unix.F_GET_SEALS, 0)
	return err == nil && seals&all == all
}
