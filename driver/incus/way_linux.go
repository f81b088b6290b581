package incus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"

	"aether/driver/daemon"
	"aether/internal/host/inroot"
	"aether/sandbox"
)

// way leads to the guest service: to its socket, as the first process of the
// container sees it.
type way struct{ root *inroot.Root }

// openWay goes through /proc. What it finds is known to be the container's by the
// name of the cgroup, in which the daemon has the container's own: the daemon may
// have been wrong about the number, or the process ended and the number another's.
func openWay(pid int, name string) (*way, daemon.Counters, error) {
	root, err := inroot.Open(fmt.Sprintf("/proc/%d/root", pid))
	if err != nil {
		return nil, daemon.Counters{}, unseen(err)
	}
	groups, ok := daemon.FindCounters(pid, name)
	if !ok {
		return nil, daemon.Counters{}, errors.Join(unseen(nil), root.Close())
	}
	return &way{root}, groups, nil
}

func unseen(err error) error {
	return &sandbox.Error{Class: sandbox.Unavailable, Reason: "the container's first process is not seen from here", Err: err,
		Remedy: "run this program where the daemon runs, in the same pid namespace"}
}

// Dial implements guestagent.Dialer. The path is resolved inside the container's root
// and a link in the socket's place is not followed: whoever is root inside could
// lead it to a socket of the host.
func (w *way) Dial(ctx context.Context) (net.Conn, error) {
	entry, err := w.root.Entry(socketPath)
	if err != nil {
		return nil, err
	}
	defer entry.Close()
	return new(net.Dialer).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", entry.Fd()))
}

// Close implements guestagent.Dialer. Connections end with the container.
func (w *way) Close() error { return w.root.Close() }

// early says that the service does not listen yet.
func early(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}
