package command

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"

	"aether/driver/guestagent"
	"aether/guest/pid1"
	"aether/network"
	"aether/sandbox"
)

var (
	_ sandbox.NetworkSetter = (*Instance)(nil)
	_ sandbox.NetworkLog    = (*Instance)(nil)
)

// connect puts a sandbox that asked for it on the network, before anything runs in it but
// the guest service.
func (b *workload) connect(ctx context.Context, n sandbox.Network, key network.AuthorityKey) (err error) {
	if n.Mode.Filtered() {
		b.network, err = b.engine.network.Connect(ctx, n, b.place(), key)
	}
	return err
}

// AuthorityKey is that of its gateway, or nil if it has none.
func (i *Instance) AuthorityKey() network.AuthorityKey { return i.body.network.AuthorityKey() }

// settle has the programs of the sandbox find and believe its gateway.
func (b *workload) settle(ctx context.Context, dial pid1.Dial) error {
	return guestagent.Settle(ctx, b.network, dial, b.engine.fleet.Logger)
}

// place is where the network namespace is in which the program was started. The program is
// a child of this one: its number is nobody else's before it has been waited for.
func (b *workload) place() network.Place {
	if file := b.engine.system.NetworkFile; file != "" {
		return network.Place{File: filepath.Join(fmt.Sprintf("/proc/%d/root", b.monitor.Pid()), b.engine.stageDir(), file)}
	}
	return network.Place{PID: b.monitor.Pid(), Still: func() error { return b.monitor.Signal(syscall.Signal(0)) }}
}

// SetNetwork implements sandbox.NetworkSetter.
func (i *Instance) SetNetwork(ctx context.Context, n sandbox.Network) error {
	if err := i.Alive(); err != nil {
		return err
	}
	return i.body.network.SetNetwork(ctx, n)
}

// NetworkDecisions implements sandbox.NetworkLog.
func (i *Instance) NetworkDecisions(ctx context.Context) ([]sandbox.NetworkDecision, int64, error) {
	return i.body.network.Decisions(ctx)
}
