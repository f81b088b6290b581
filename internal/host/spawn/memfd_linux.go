package spawn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

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

// sealTime is how long Seal tries.
const sealTime = 10 * time.Second

// Seal keeps everybody from changing a file from now on, however it was or will be
// opened. A private mapping can still be written to, for oneself. It fails while
// anybody has mapped the file to change it; pages that are just on their way elsewhere
// keep the kernel from it too, for a moment, which Seal waits for.
func Seal(ctx context.Context, file *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, sealTime)
	defer cancel()
	for {
		_, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
		if err == nil || err == unix.EPERM && sealed(file) {
			return nil
		}
		err = os.NewSyscallError("fcntl F_ADD_SEALS", err)
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// sealed says whether nobody can change a file any more.
func sealed(file *os.File) bool {
	const all = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	seals, err := unix.FcntlInt(file.Fd(), unix.F_GET_SEALS, 0)
	return err == nil && seals&all == all
}
