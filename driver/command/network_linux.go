package command

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"

	"aether/driver/guestagent"
	"aether/guest/channel"
	"aether/network"
	"aether/sandbox"
)

var _ sandbox.NetworkSetter = (*Instance)(nil)

// connect puts a sandbox that asked for it on the network, before anything runs in it but
// the guest service.
func (b *workload) connect(ctx context.Context, n sandbox.Network, dialer *channel.Dialer) (err error) {
	if !n.Mode.Filtered() {
		return nil
	}
	if b.network, err = b.engine.network.Connect(ctx, n, b.place()); err != nil {
		return err
	}
	return guestagent.SetNameServer(ctx, dialer.Dial)
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
