package spawn

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Namespace is a kind of namespaces.
type Namespace struct {
	name    string // below /proc/PID/ns
	request uintptr
}

// UserNamespace is the kind of user namespaces.
var UserNamespace = Namespace{"user", unix.PIDFD_GET_USER_NAMESPACE}

// Namespace opens the one that the process is in. A process that has been reaped is ESRCH.
func (p *Process) Namespace(kind Namespace) (fd int, err error) {
	fd = -1
	gone := p.Fd(func(pidfd int) { fd, err = kind.of(pidfd, p.pid) })
	if err = errors.Join(gone, err); err != nil {
		return -1, fmt.Errorf("spawn: %s namespace: %w", kind.name, err)
	}
	return fd, nil
}

// of asks the descriptor, which answers since Linux 6.11. The way by /proc takes longer,
// because the kernel makes what it shows of a process anew.
func (k Namespace) of(pidfd, pid int) (int, error) {
	asked, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(pidfd), k.request, 0)
	if errno == 0 {
		return int(asked), nil
	}
	path := fmt.Sprintf("/proc/%d/ns/%s", pid, k.name)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	// The number may have become another's if the process has been reaped, and only then.
	if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err != nil {
		return -1, errors.Join(os.NewSyscallError("pidfd_send_signal", err), unix.Close(fd))
	}
	return fd, nil
}
