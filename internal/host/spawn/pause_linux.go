package spawn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	elfHeaderSize  = 64
	progHeaderSize = 56
	loadAddress    = 0x400000
)

// Pause is the program that PID 1 of a process-level sandbox executes: a static
// ELF of under 200 bytes that sleeps for ever, in a sealed memory file that can
// be executed but not read, so that nobody inside can trace it. With SIGCHLD
// ignored the kernel reaps its orphans. It costs a few KiB.
var Pause = sync.OnceValues(func() (*os.File, error) { return pauseFile("aether-init", 0o111) })

func pauseFile(name string, mode os.FileMode) (*os.File, error) {
	file, err := ExecutableFile(name)
	if err != nil {
		return nil, err
	}
	if err := fillPause(file, mode); err != nil {
		file.Close()
		return nil, fmt.Errorf("spawn: make the program %s: %w", name, err)
	}
	return file, nil
}

// firstFd is above the descriptors that scripts use by number: a file below could
// be overwritten by the steps that a child makes before it takes the file.
const firstFd = 10

// memoryFile makes a file in memory that scripts can inherit.
func memoryFile(name string, flags int) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|flags)
	if err != nil {
		return nil, fmt.Errorf("spawn: memfd_create: %w", err)
	}
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, firstFd)
	unix.Close(fd)
	if err != nil {
		return nil, fmt.Errorf("spawn: fcntl: %w", err)
	}
	return os.NewFile(uintptr(high), name), nil
}

// ExecutableFile makes an empty file in memory that may become a program, also where such
// files are not otherwise executed (the sysctl vm.memfd_noexec).
func ExecutableFile(name string) (*os.File, error) {
	file, err := memoryFile(name, unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		return memoryFile(name, unix.MFD_ALLOW_SEALING)
	}
	return file, err
}

func fillPause(file *os.File, mode os.FileMode) error {
	if _, err := file.Write(pauseELF()); err != nil {
		return err
	}
	if err := file.Chmod(mode); err != nil {
		return err
	}
	seals := unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	_, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, seals)
	return err
}

// pauseELF is an ELF header, one program header that maps the whole file
// readable and executable, and the code.
func pauseELF() []byte {
	size := elfHeaderSize + progHeaderSize + len(pauseCode)
	le := binary.LittleEndian
	out := make([]byte, 0, size)
	out = append(out, 0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	out = le.AppendUint16(out, 2) // executable
	out = le.AppendUint16(out, pauseMachine)
	out = le.AppendUint32(out, 1)
	out = le.AppendUint64(out, loadAddress+elfHeaderSize+progHeaderSize) // entry
	out = le.AppendUint64(out, elfHeaderSize)                            // program headers
	out = le.AppendUint64(out, 0)                                        // no sections
	out = le.AppendUint32(out, 0)
	for _, half := range []uint16{elfHeaderSize, progHeaderSize, 1, 0, 0, 0} {
		out = le.AppendUint16(out, half)
	}
	out = le.AppendUint32(out, 1) // PT_LOAD
	out = le.AppendUint32(out, 5) // read, execute
	for _, word := range []uint64{0, loadAddress, loadAddress, uint64(size), uint64(size), 0x1000} {
		out = le.AppendUint64(out, word)
	}
	return append(out, pauseCode...)
}
