package vmm

import (
	"context"
	"fmt"
	"time"

	"aether/internal/host/cgroup"
	"aether/internal/host/idrange"
)

const (
	// overhead is what a monitor may use beside the guest's memory.
	overhead = 512 * mebibyte
	// maxThreads is what a monitor has beside one for each processor.
	maxThreads = 128
	// monitorTime is how long a monitor may take to answer: it does before any guest
	// runs. Its socket is looked for every monitorWait.
	monitorTime = time.Minute
	monitorWait = time.Millisecond
)

// launch starts the machine's monitor with what fill gives it, or gives that to one that waits.
func (m *machine) launch(ctx context.Context, fill func(workplace) error) (err error) {
	if m.engine.system.Handed {
		return m.takeWarm(ctx, fill)
	}
	l := invocation{argv: []string{m.engine.program.path}, user: lowlyUser(m.hardware.Emulated), alone: mayUnshare()}
	if m.place, err = m.newWorkplace(ctx, &l); err != nil {
		return err
	}
	if m.disk != nil {
		if err := m.place.share(m.disk, Disk); err != nil {
			return err
		}
	}
	if err := fill(m.place); err != nil {
		return err
	}
	if l.attach, err = m.enter(); err != nil {
		return err
	}
	m.place.arrange(m, &l)
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
	none := cgroup.Attach{Into: -1}
	var err error
	if m.group, err = m.engine.newGroup(); m.group == nil {
		return none, err
	}
	if err := m.limit(); err != nil {
		return none, err
	}
	return m.group.Attach(true)
}

// newGroup makes the group of a monitor: none where there are no cgroups.
func (e *engine) newGroup() (*cgroup.Group, error) {
	if e.groups == nil {
		return nil, nil
	}
	return e.groups.Create(fmt.Sprintf("machine-%d", e.count.Add(1)))
}

// limit holds the monitor itself, in case that a guest takes it over, and shares
// of processors.
func (m *machine) limit() error {
	if m.group == nil {
		return nil
	}
	var limits cgroup.Limits
	held := m.engine.hierarchy.Holds()
	if held&cgroup.Memory != 0 {
		// Twice: the state that it saves may be written to a file system in memory. And once
		// more for each fork: what children share was written by this monitor.
		limits.Memory = (2+m.forks)*m.hardware.MemoryMiB*mebibyte + overhead
	}
	if held&cgroup.CPU != 0 {
		limits.CPUs = m.spec.Limits.CPUs
	}
	if held&cgroup.Pids != 0 {
		limits.Pids = maxThreads + int64(m.hardware.CPUs)
	}
	return m.group.Set(limits)
}

// meet waits until the monitor answers.
func (m *machine) meet(ctx context.Context) error {
	if m.monitor != nil {
		return nil // it was when its monitor was taken
	}
	m.monitor, m.line = m.engine.system.Monitor(m.place.connect), m.place.line()
	ctx, cancel := context.WithTimeout(ctx, monitorTime)
	defer cancel()
	if err := m.place.await(ctx, m.process.ended); err != nil {
		return err
	}
	return m.monitor.Hello(ctx)
}

// mayUnshare says whether this program can make namespaces without a user
// namespace around them.
func mayUnshare() bool {
	const sysAdmin = 21 // the capability
	return idrange.Capable(sysAdmin)
}
