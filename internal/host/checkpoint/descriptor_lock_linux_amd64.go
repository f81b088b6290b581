package checkpoint

import (
	"errors"
	"os"
	"unsafe"

	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// takeLocks takes the locks that belong to the open file and not to a process.
func (d Descriptor) takeLocks(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	for _, l := range d.Locks {
		controlled := raw.Control(func(fd uintptr) { err = l.take(int(fd)) })
		if err = errors.Join(controlled, err); err != nil {
			return err
		}
	}
	return nil
}

// Names of locks.
const (
	lockFile    = "FLOCK"
	lockOpen    = "OFDLCK"
	lockProcess = "POSIX"
)

func (l Lock) take(fd int) error {
	switch l.Owner {
	case lockProcess:
		return nil
	case lockFile:
		how := unix.LOCK_SH
		if l.Write {
			how = unix.LOCK_EX
		}
		return os.NewSyscallError("flock", unix.Flock(fd, how|unix.LOCK_NB))
	case lockOpen:
		whole := l.fcntl()
		return os.NewSyscallError("fcntl", unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &whole))
	}
	return errors.ErrUnsupported
}

// processLocks are those that belong to the process itself. The kernel tells of
// them by every descriptor of a file; one that is not open in the right way is
// not that by which they were taken.
func (d Descriptor) processLocks() (list []Lock) {
	for _, l := range d.Locks {
		wrong := unix.O_WRONLY
		if l.Write {
			wrong = unix.O_RDONLY
		}
		if l.Owner == lockProcess && d.Flags&unix.O_ACCMODE != wrong {
			list = append(list, l)
		}
	}
	return list
}

// appendTo appends the taking of a lock that belongs to a process, by itself.
func (l Lock) appendTo(s *spawn.Script, number int) {
	f := l.fcntl()
	address, mem := s.Bytes(int(unsafe.Sizeof(f)))
	*(*unix.Flock_t)(unsafe.Pointer(&mem[0])) = f
	s.Call(unix.SYS_FCNTL, uintptr(number), unix.F_SETLK, address)
}

func (l Lock) fcntl() unix.Flock_t {
	f := unix.Flock_t{Type: unix.F_RDLCK, Start: l.Start}
	if l.Write {
		f.Type = unix.F_WRLCK
	}
	if l.End >= 0 {
		f.Len = l.End - l.Start + 1
	}
	return f
}
