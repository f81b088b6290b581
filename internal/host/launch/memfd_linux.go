package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"aether/internal/host/spawn"

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
	if err := spawn.Seal(context.Background(), file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// SealedProgram makes a copy of a program in memory, which everybody can execute and nobody
// can change.
func SealedProgram(path string) (*os.File, error) {
	program, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	file, err := spawn.ExecutableFile(filepath.Base(path))
	if err != nil {
		return nil, err
	}
	if _, err = io.Copy(file, program); err == nil {
		err = file.Chmod(0o555)
	}
	if err == nil {
		err = spawn.Seal(context.Background(), file)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Reopen opens a file once more, for reading only.
func Reopen(file *os.File) (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
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
