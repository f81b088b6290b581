package vmm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"aether/internal/host/storedir"
	"aether/sandbox"
)

var _ workplace = (*home)(nil)

// newHome makes the directory for a user who may read what machines share.
func (m *machine) newHome(ctx context.Context, l *invocation) (*home, error) {
	jail := m.engine.jail()
	if jail != nil {
		l.user = newUser()
		l.user.Gid = sharing // the only group that a jail gives
	} else if l.user != nil {
		l.user.Groups = append(l.user.Groups, sharing)
	}
	return newHome(ctx, homesDir(m.engine.opts), jail, l.user)
}

// arrange implements workplace.
func (h *home) arrange(m *machine, l *invocation) {
	arguments := m.engine.system.Arguments
	if h.jail == nil {
		l.dir, l.argv = within(h.root, ""), append(l.argv, arguments...)
		return
	}
	// It enters its directory itself, and then becomes the user.
	l.user, l.argv, l.dir = nil, h.jail.Command(h.dir, h.user.Uid, h.user.Gid, arguments), "/"
}

// await implements workplace: the monitor makes its socket.
func (h *home) await(ctx context.Context, ended <-chan struct{}) error {
	for {
		conn, err := h.dial(ctx, Socket)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(monitorWait):
		}
	}
}

// connect implements workplace.
func (h *home) connect(ctx context.Context) (net.Conn, error) { return h.dial(ctx, Socket) }

// line implements workplace.
func (h *home) line() line {
	return newGuestDialer(func(ctx context.Context) (net.Conn, error) { return h.dial(ctx, Vsock) })
}

// dial connects to a socket in the directory, if the monitor made it.
func (h *home) dial(ctx context.Context, name string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", within(h.root, name))
	if err != nil {
		return nil, err
	}
	socket := conn.(*net.UnixConn)
	uid, err := storedir.PeerUID(socket)
	if err == nil && uid != h.uid() {
		err = &sandbox.Error{Class: sandbox.Denied, Reason: fmt.Sprintf("the socket %s belongs to user %d, and the monitor is %d", name, uid, h.uid())}
	}
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	return socket, nil
}

// booted implements workplace. Kernel and initramfs have been read, and a monitor that
// would boot its machine once more, as after a panic, ends instead.
func (h *home) boot(ctx context.Context, m *machine) error {
	if err := m.monitor.Boot(ctx, m.hardware, m.engine.system.KernelArgs); err != nil {
		return err
	}
	return drop(h.root, Kernel, Initramfs)
}

// save implements workplace.
func (h *home) save(ctx context.Context, m *machine, dir string, _ bool) error {
	files := m.engine.system.SavedFiles
	if err := m.monitor.Save(ctx, State{}); err != nil {
		return errors.Join(err, drop(h.saved, files...))
	}
	for _, name := range files {
		if err := h.take(name, filepath.Join(dir, name)); err != nil {
			return errors.Join(err, drop(h.saved, files...))
		}
	}
	return h.keepDisk(m, filepath.Join(dir, diskFile))
}

// keepDisk implements workplace.
func (h *home) keepDisk(m *machine, name string) error {
	return linkOrCopy(m.disk, name, within(h.root, Disk))
}

// load implements workplace. The monitor has the files open or in memory afterwards.
// What it saves later must be files of its own: others go on from these.
func (h *home) load(ctx context.Context, m *machine) error {
	if err := m.monitor.Load(ctx, State{}); err != nil {
		return err
	}
	return drop(h.saved, m.engine.system.SavedFiles...)
}
