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
	if i.network != nil {
		return i.network.Begin(ctx, i.spec.Network, i.authority)
	}
	return i.cell.WithInit(func(pidfd int) (err error) {
		i.network, err = i.engine.network.ConnectProcess(ctx, i.spec.Network, pidfd, i.authority)
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
	i.network.OnTrust(i.trustLater)
	return i.trust(i.network.Authority())
}

// NetworkDecisions implements sandbox.NetworkLog.
func (i *instance) NetworkDecisions(ctx context.Context) ([]sandbox.NetworkDecision, int64, error) {
	if i.network == nil {
		return nil, 0, &sandbox.Error{Class: sandbox.Unsupported, Op: Name, Reason: "the cell has no network of its own, about which anything is decided"}
	}
	return i.network.Decisions(ctx)
}

// trust has the programs of the cell believe its gateway, if they have to.
func (i *instance) trust(certificate []byte) error {
	if certificate == nil {
		return nil
	}
	user := "0"
	if i.engine.host.Identity.Single {
		user = strconv.Itoa(confine.UserID)
	}
	bundle := network.TrustBundle(certificate, func(path string) ([]byte, error) { return i.service.ReadFile(user, path, network.MaxTrust) })
	return i.service.WriteFile(user, network.TrustFile, bundle)
}

// trustLater is for another certificate, of which nobody waits for the end.
func (i *instance) trustLater(certificate []byte) {
	if err := i.trust(certificate); err != nil {
		i.engine.log.Warn("cell: programs will not believe its gateway", "sandbox", i.ID(), "err", err)
	}
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
