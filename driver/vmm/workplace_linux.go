package vmm

import (
	"context"
	"net"
	"os"

	"aether/driver/guestagent"
)

// workplace is how a monitor is given files and is spoken to: by names in a
// directory of its own (home), or by descriptors that it inherits (wires).
type workplace interface {
	// share gives the monitor a file that machines have in common, and write one of
	// its own. Both are for the time before the start.
	share(file *os.File, name string) error
	write(name string, contents ...[]byte) error
	// arrange completes how the monitor is started.
	arrange(m *machine, l *invocation)
	// await waits until the monitor can be spoken to.
	await(ctx context.Context, ended <-chan struct{}) error
	// connect is how the monitor is spoken to, and line the way to the guest.
	connect(context.Context) (net.Conn, error)
	line() line
	// boot has the monitor boot the machine, and takes away what it was booted from.
	boot(ctx context.Context, m *machine) error
	// save has the monitor save the state of the machine in a directory, without what is in its
	// base if it is over that, and load go on from the one that it was given in Saved.
	save(ctx context.Context, m *machine, dir string, over bool) error
	load(ctx context.Context, m *machine) error
	// keepDisk gives the machine's disk another name.
	keepDisk(m *machine, name string) error
	close() error
}

// line is the way to a guest service.
type line interface {
	guestagent.Dialer
	// await waits until the service takes connections.
	await(ctx context.Context, ended <-chan struct{}) error
	// cut ends the connections that are open: their other ends have lost them.
	cut()
	// broken is closed when there will be no connection any more.
	broken() <-chan struct{}
}

// newWorkplace makes the place of a monitor that is started as l says.
func (m *machine) newWorkplace(ctx context.Context, l *invocation) (workplace, error) {
	var place workplace
	var err error
	if m.engine.system.Inherit != nil {
		place, err = newWires(false)
	} else {
		place, err = m.newHome(ctx, l)
	}
	if err != nil {
		return nil, err // and no place that holds nothing
	}
	return place, nil
}
