package cell

import (
	"context"
	"net"
	"strconv"

	"aether/driver/guestagent"
	"aether/internal/host/confine"
	"aether/network"
	"aether/sandbox"
)

var _ sandbox.NetworkSetter = (*instance)(nil)

// networked says that the cell is to have a gateway, and so a device that can be made ahead.
func (i *instance) networked() bool { return i.spec.Network.Mode == sandbox.EgressNetwork }

// joinNetwork puts a cell that asked for it on the network. One that was made ahead has its
// device.
func (i *instance) joinNetwork(ctx context.Context) error {
	if !i.spec.Network.Mode.Filtered() {
		return nil
	}
	if _, err := i.occupy(); err != nil {
		return err
	}
	if i.network != nil {
		return i.network.Begin(ctx, i.spec.Network, i.authority)
	}
	return i.cell.WithNetwork(func(fd int) (err error) {
		i.network, err = i.engine.network.ConnectProcess(ctx, i.spec.Network, network.Process{FD: fd, OwnUser: i.cell.OwnsNetwork()}, i.authority)
		return err
	})
}

// settleNetwork has the programs of a cell on the network find and believe its gateway,
// once the files of the cell are there.
func (i *instance) settleNetwork(ctx context.Context, names bool) error {
	if i.network == nil {
		return nil
	}
	if names {
		if err := i.setNameServer(ctx); err != nil {
			return err
		}
	}
	return guestagent.Trust(ctx, i.network, files{i}, i.engine.log)
}

// files are those of a cell for its owner: as its root, or as the one user that there is.
type files struct{ *instance }

func (f files) user() string {
	if f.engine.host.Identity.Single {
		return strconv.Itoa(confine.UserID)
	}
	return "0"
}

// ReadFile implements guestagent.Own.
func (f files) ReadFile(_ context.Context, name string) ([]byte, error) {
	return f.service.ReadFile(f.user(), name, network.MaxTrust)
}

// WriteFile implements guestagent.Own.
func (f files) WriteFile(_ context.Context, name string, contents []byte) error {
	return f.service.WriteFile(f.user(), name, contents)
}

// NetworkDecisions implements sandbox.NetworkLog.
func (i *instance) NetworkDecisions(ctx context.Context) ([]sandbox.NetworkDecision, int64, error) {
	return i.network.Decisions(ctx)
}

// setNameServer has programs of the cell ask its gateway for names. The
// host's own system is made so.
func (i *instance) setNameServer(ctx context.Context) error {
	if i.spec.Image == "" || i.spec.Image == sandbox.HostImage {
		return nil
	}
	return guestagent.SetNameServer(ctx, func(ctx context.Context) (net.Conn, error) { return i.Dial(ctx) })
}

// SetNetwork implements sandbox.NetworkSetter.
func (i *instance) SetNetwork(ctx context.Context, n sandbox.Network) error {
	if err := i.Alive(); err != nil {
		return err
	}
	return i.network.SetNetwork(ctx, n)
}
