package vmm

import (
	"context"
	"errors"
	"io"
	"net"
	"os"

	"aether/driver/guestagent"
	"aether/guest/pid1"
	"aether/internal/host/launch"
	"aether/network"
	"aether/sandbox"
)

var (
	_ sandbox.NetworkSetter = (*instance)(nil)
	_ sandbox.NetworkLog    = (*instance)(nil)
)

// A machine on the network has no network card: its init makes a device inside, and sends
// the packets over a connection to its service. This program does not look at them: they
// are for the gateways' process, which is given the connection itself where it is a socket
// of this host.

// refusesNetwork says why machines have not the other modes, and what is wrong with a
// policy: nobody waits for a machine to hear that.
func (e *engine) refusesNetwork(ctx context.Context, n sandbox.Network) error {
	reason := ""
	switch n.Mode {
	case sandbox.HostNetwork:
		reason = "a machine has a kernel of its own, and no card by which it could be on the host's network"
	case sandbox.NatNetwork:
		reason = "a machine has no card whose packets this host's kernel could translate"
	case sandbox.EgressNetwork:
		if err := e.opts.Network.Accepts(n); err != nil {
			return err
		}
		_, err := e.opts.Network.Compile(ctx, n)
		return err
	default:
		return nil
	}
	return &sandbox.Error{Class: sandbox.Unsupported, Field: "network.mode", Reason: reason, Remedy: "use egress or none"}
}

// joinNetwork puts a machine that asked for it on the network, before anybody else talks
// to it. The key is that of the machine that this one goes on from, or nil.
func (m *machine) joinNetwork(ctx context.Context, key network.AuthorityKey) (err error) {
	if !m.spec.Network.Mode.Filtered() {
		return nil
	}
	if m.network, err = m.engine.opts.Network.ConnectStream(ctx, m.spec.Network, key, m.openStream); err != nil {
		return err
	}
	return guestagent.Settle(ctx, m.network, m.line.Dial, m.engine.opts.Logger)
}

// changesNetwork says whether there is something for rejoinNetwork to do.
func (m *machine) changesNetwork(from manifest) bool {
	return from.Authority != nil || m.spec.Network.Mode.Filtered()
}

// rejoinNetwork gives a machine that goes on from another's state a network of its own, or
// takes the other's away.
func (m *machine) rejoinNetwork(ctx context.Context, from manifest) error {
	if from.Authority != nil && !m.spec.Network.Mode.Filtered() {
		return pid1.LeaveNetwork(ctx, m.line.Dial)
	}
	return m.joinNetwork(ctx, from.Authority)
}

// mendNetwork opens the way to a machine's network again if it was lost while the machine
// stood still: by a snapshot, or since the gateways' process was started again. Where that
// fails the machine goes on without, and its log of decisions says so.
func (m *machine) mendNetwork(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, wakeTime)
	defer cancel()
	mend := m.network.Mend
	if m.cut {
		m.cut, mend = false, m.network.Replug
	}
	guestagent.Discard(m.engine.opts.Logger, m.engine.system.Name+": "+m.id+" has no network any more", func() error { return mend(ctx) })
}

// openStream implements network.OpenStream.
func (m *machine) openStream(ctx context.Context, device []byte) (*os.File, error) {
	conn, err := pid1.JoinNetwork(ctx, m.line.Dial, device)
	if err != nil {
		return nil, err
	}
	if guest, ok := conn.(*guestConn); ok {
		if socket, ok := guest.Conn.(*net.UnixConn); ok {
			file, err := socket.File()
			return file, errors.Join(err, conn.Close())
		}
	}
	ours, theirs, err := launch.SocketPair()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	go pass(conn, ours)
	go pass(ours, conn)
	return theirs, nil
}

// pass hands on what comes until either ends, and then ends both. It holds no more than
// its buffer: who has no room lets the other wait.
func pass(to, from net.Conn) {
	_, _ = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, passSize)) // those at its ends know why
	to.Close()
	from.Close()
}

const passSize = 128 << 10

// SetNetwork implements sandbox.NetworkSetter.
func (i *instance) SetNetwork(ctx context.Context, n sandbox.Network) error {
	if err := i.Alive(); err != nil {
		return err
	}
	return i.network.SetNetwork(ctx, n)
}

// NetworkDecisions implements sandbox.NetworkLog.
func (i *instance) NetworkDecisions(ctx context.Context) ([]sandbox.NetworkDecision, int64, error) {
	if i.network == nil {
		return nil, 0, &sandbox.Error{Class: sandbox.Unsupported, Op: i.engine.system.Name, Reason: "the machine has no network, about which anything is decided"}
	}
	return i.network.Decisions(ctx)
}
