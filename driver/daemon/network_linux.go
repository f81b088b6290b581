package daemon

import (
	"context"
	"fmt"
	"log/slog"

	"aether/driver/guestagent"
	"aether/guest/pid1"
	"aether/network"
	"aether/sandbox"
)

// Link is a container's place on the network. Its zero value is one without.
type Link struct{ attached *network.Attached }

// Attached implements Workload.
func (l *Link) Attached() *network.Attached { return l.attached }

// Connect puts a container that asked for it on the network, before anything runs in it
// but the guest service. The daemon says which process is the container's first; that it
// is, is known by its cgroup, which has the container's name.
func (l *Link) Connect(ctx context.Context, s *network.Service, n sandbox.Network, container string, pid func(context.Context) (int, error)) error {
	if !n.Mode.Filtered() {
		return nil
	}
	number, err := pid(ctx)
	if err != nil {
		return err
	}
	l.attached, err = s.Connect(ctx, n, network.Place{PID: number, Still: func() error { return isOf(number, container) }}, nil)
	return err
}

func isOf(pid int, container string) error {
	if _, ok := FindCounters(pid, container); ok {
		return nil
	}
	return &sandbox.Error{Class: sandbox.Unavailable, Field: "network.mode", Reason: fmt.Sprintf("process %d is not the container's first, as its cgroup says", pid),
		Remedy: "run this program where the daemon runs, in the same pid namespace"}
}

// Settle implements Workload, where the daemon does not see to the name server.
func (l *Link) Settle(ctx context.Context, dial pid1.Dial, log *slog.Logger) error {
	return guestagent.Settle(ctx, l.attached, dial, log)
}

// Leave takes the container off it.
func (l *Link) Leave() error { return l.attached.Leave() }
