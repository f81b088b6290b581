package vmm

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"aether/internal/host/cgroup"
)

const (
	// overhead is what a monitor may use beside the guest's memory.
	overhead = 512 * mebibyte
	// maxThreads is what a monitor has beside one for each processor.
	maxThreads = 128
	// monitorWait is how often a monitor's socket is looked for.
	monitorWait = time.Millisecond
)

// launch makes the machine's directory and starts its monitor there.
func (m *machine) launch(ctx context.Context, fill func() error) (err error) {
	e := m.engine
	l := launch{argv: append([]string{e.program.path}, e.system.Arguments...), user: lowlyUser(), alone: mayUnshare()}
	owner, jail := l.user, e.jail()
	if jail != nil {
		owner = newUser()
		owner.Gid = sharing // the only group that a jail gives
	}
	if m.home, err = newHome(ctx, homesDir(e.opts), jail, owner); err != nil {
		return err
	}
	if err := m.home.share(m.disk, Disk); err != nil {
		return err
	}
	if err := fill(); err != nil {
		return err
	}
	l.dir = within(m.home.root, "")
	if jail != nil {
		l.user, l.argv, l.dir = nil, jail.Command(m.home.dir, owner.Uid, owner.Gid, e.system.Arguments), "/"
	}
	if l.attach, err = m.enter(); err != nil {
		return err
	}
	m.process, err = l.start()
	return err
}

// jail is used only where its process, which forgets whose child it is when it
// changes its user, can be found again by its cgroup.
func (e *engine) jail() Jail {
	if e.groups == nil {
		return nil
	}
	jail, _ := jailFor(e.system, e.program.path)
	return jail
}

// enter makes the group of the monitor.
func (m *machine) enter() (cgroup.Attach, error) {
	e := m.engine
	none := cgroup.Attach{Into: -1}
	if e.groups == nil {
		return none, nil
	}
	var err error
	if m.group, err = e.groups.Create(fmt.Sprintf("machine-%d", e.count.Add(1))); err != nil {
		return none, err
	}
	if err := m.limit(); err != nil {
		return none, err
	}
	return m.group.Attach(true)
}

// limit holds the monitor itself, in case that a guest takes it over, and shares
// of processors.
func (m *machine) limit() error {
	var limits cgroup.Limits
	held := m.engine.hierarchy.Holds()
	if held&cgroup.Memory != 0 {
		// Twice: the state that it saves may be written to a file system in memory.
		limits.Memory = 2*m.hardware.MemoryMiB*mebibyte + overhead
	}
	if held&cgroup.CPU != 0 {
		limits.CPUs = m.spec.Limits.CPUs
	}
	if held&cgroup.Pids != 0 {
		limits.Pids = maxThreads + int64(m.hardware.CPUs)
	}
	return m.group.Set(limits)
}

// awaitMonitor waits until the monitor listens.
func (m *machine) awaitMonitor(ctx context.Context) error {
	dial := func(name string) func(context.Context) (net.Conn, error) {
		return func(ctx context.Context) (net.Conn, error) {
			conn, err := m.home.dial(ctx, name)
			if err != nil {
				return nil, err
			}
			return conn, nil
		}
	}
	m.monitor = m.engine.system.Monitor(dial(Socket))
	m.dialer = newGuestDialer(dial(Vsock))
	for {
		conn, err := m.home.dial(ctx, Socket)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-m.process.ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(monitorWait):
		}
	}
}

// mayUnshare says whether this program can make namespaces without a user
// namespace around them.
func mayUnshare() bool {
	const sysAdmin = 1 << 21
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "CapEff:"); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			return err == nil && set&sysAdmin != 0
		}
	}
	return false
}
