package netdev

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// Way is how the child that makes a device comes into the net namespace of a sandbox.
type Way struct{ steps []setns }

type setns struct {
	fd    int
	flags uint64
}

// By is the way by a descriptor: with ownUser of a process, into its net namespace, which
// belongs to its own user namespace; otherwise of a net namespace that belongs to this
// program's.
func By(fd int, ownUser bool) Way {
	flags := uint64(unix.CLONE_NEWNET)
	if ownUser {
		flags |= unix.CLONE_NEWUSER
	}
	return Way{[]setns{{fd, flags}}}
}

// NamespaceBy opens the net namespace that By leads into.
func NamespaceBy(fd int, ownUser bool) (*Namespace, error) {
	if ownUser {
		return NamespaceByProcess(fd)
	}
	n, err := OpenNamespace(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, fmt.Errorf("netdev: the net namespace: %w", err)
	}
	return n, nil
}

func (w Way) enter(s *spawn.Script) {
	for _, step := range w.steps {
		s.Call(unix.SYS_SETNS, uintptr(step.fd), uintptr(step.flags))
	}
}

// Namespace is a net namespace that is not this program's own, and the user namespace
// that it belongs to. It stays while this is open.
type Namespace struct {
	net  *os.File
	user *os.File // nil if it belongs to this program's own
}

// errOwn says that a device would be made on the host.
var errOwn = errors.New("it has the net namespace of this program")

// NamespaceOf opens the net namespace of a process. Whoever has the number of somebody
// else asks still whether that process is the one that was meant: by then the process is
// held, so that its number cannot have become another's before the namespace was opened.
func NamespaceOf(pid int, still func() error) (*Namespace, error) {
	n, err := namespaceOf(pid, still)
	if err != nil {
		return nil, fmt.Errorf("netdev: the net namespace of process %d: %w", pid, err)
	}
	return n, nil
}

func namespaceOf(pid int, still func() error) (*Namespace, error) {
	held, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(held)
	if err := still(); err != nil {
		return nil, err
	}
	n, err := OpenNamespace(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, err
	}
	if err := unix.PidfdSendSignal(held, 0, nil, 0); err != nil {
		return nil, errors.Join(os.NewSyscallError("pidfd_send_signal", err), n.Close())
	}
	return n, nil
}

// NamespaceByProcess is NamespaceOf for who has a descriptor of the process.
func NamespaceByProcess(pidfd int) (*Namespace, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", pidfd))
	if err != nil {
		return nil, fmt.Errorf("netdev: %w", err)
	}
	pid := -1
	for line := range strings.Lines(string(text)) {
		if number, ok := strings.CutPrefix(line, "Pid:"); ok {
			pid, err = strconv.Atoi(strings.TrimSpace(number))
		}
	}
	if err != nil || pid <= 0 {
		return nil, fmt.Errorf("netdev: the process has ended: %w", errors.Join(unix.ESRCH, err))
	}
	return NamespaceOf(pid, func() error { return os.NewSyscallError("pidfd_send_signal", unix.PidfdSendSignal(pidfd, 0, nil, 0)) })
}

// OpenNamespace opens a net namespace by a file that stands for it, which must be
// nobody's but this program's to change.
func OpenNamespace(path string) (_ *Namespace, err error) {
	n := &Namespace{}
	if n.net, err = os.Open(path); err != nil {
		return nil, err
	}
	if err := n.find(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// find looks at what was opened.
func (n *Namespace) find() error {
	kind, err := unix.IoctlRetInt(int(n.net.Fd()), unix.NS_GET_NSTYPE)
	if err != nil || kind != unix.CLONE_NEWNET {
		return errors.Join(errors.New("it is no net namespace"), err)
	}
	if own, err := isOwn(n.net, "net"); err != nil || own {
		return errors.Join(errOwn, err)
	}
	owner, err := unix.IoctlRetInt(int(n.net.Fd()), unix.NS_GET_USERNS)
	if err != nil {
		return os.NewSyscallError("ioctl NS_GET_USERNS", err)
	}
	n.user = os.NewFile(uintptr(owner), "user namespace")
	own, err := isOwn(n.user, "user")
	if own {
		err = n.user.Close()
		n.user = nil
	}
	return err
}

// isOwn says whether a file stands for this program's own namespace of a kind.
func isOwn(file *os.File, kind string) (bool, error) {
	own, err := os.Stat("/proc/self/ns/" + kind)
	if err != nil {
		return false, err
	}
	info, err := file.Stat()
	return err == nil && os.SameFile(own, info), err
}

// Fd is the descriptor of the net namespace, for the kernel to put a device there.
func (n *Namespace) Fd() int { return int(n.net.Fd()) }

// Way is the way into it.
func (n *Namespace) Way() Way {
	var w Way
	if n.user != nil {
		w.steps = append(w.steps, setns{int(n.user.Fd()), unix.CLONE_NEWUSER})
	}
	w.steps = append(w.steps, setns{int(n.net.Fd()), unix.CLONE_NEWNET})
	return w
}

// Close lets go of it.
func (n *Namespace) Close() error {
	err := n.net.Close()
	if n.user != nil {
		err = errors.Join(err, n.user.Close())
	}
	return err
}
