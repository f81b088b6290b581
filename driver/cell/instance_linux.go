package cell

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"aether/driver/lifetime"
	"aether/guest"
	"aether/image"
	"aether/image/snapshot"
	"aether/internal/host/cgroup"
	"aether/internal/host/confine"
	"aether/network"
	"aether/sandbox"
)

// instance is one living cell.
type instance struct {
	lifetime.Lifetime
	engine    *engine
	spec      sandbox.Spec
	root      image.Root      // that it was made of
	layer     *snapshot.Layer // on top of root, if the cell was restored
	cell      *confine.Cell
	place     place
	disk      string // directory of its writes, if they are on disk
	service   *guest.Service
	network   *network.Attached    // nil for one without, or with the host's
	authority network.AuthorityKey // of the cell that it goes on from

	diskBound int64 // what it may write there, or 0 if nothing bounds it

	parent string              // what it was forked from, if it was
	kin    atomic.Pointer[kin] // nil for one that has no relatives

	commands atomic.Uint64 // names the groups of commands
	live     sync.Map      // of *process: those from outside that have not been waited for
	forks
}

var (
	_ sandbox.Instance   = (*instance)(nil)
	_ sandbox.Pauser     = (*instance)(nil)
	_ sandbox.NetworkLog = (*instance)(nil)
	_ guest.InProcess    = (*instance)(nil)
)

// Dial implements sandbox.Instance: the guest service of a cell is in this very
// program, so its wire is a pipe in memory.
func (i *instance) Dial(context.Context) (net.Conn, error) {
	if err := i.Alive(); err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	if err := i.service.ServeConn(theirs); err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	return ours, nil
}

// Guest implements guest.InProcess.
func (i *instance) Guest() (guest.InProcessService, error) {
	if err := i.Alive(); err != nil {
		return nil, err
	}
	return i.service, nil
}

// Stats implements sandbox.Instance.
func (i *instance) Stats(context.Context) (stats sandbox.Stats, err error) {
	if err := i.Alive(); err != nil {
		return stats, err
	}
	if stats, err = i.usage(); err != nil {
		return stats, err
	}
	return stats, i.diskUsage(&stats)
}

// usage is what the group of the cell says, which stays the cell's meanwhile.
func (i *instance) usage() (stats sandbox.Stats, err error) {
	i.place.mu.RLock()
	defer i.place.mu.RUnlock()
	group := i.place.group
	switch {
	case i.engine.groups == nil:
		return stats, nil
	case group == nil:
		return i.usageOfNobody(), nil
	}
	stats, err = group.Stats()
	if err != nil {
		return stats, err
	}
	events, err := group.Events()
	if err != nil {
		return stats, err
	}
	stats.OOMKills = &events.OOMKills
	if stats.Processes != nil && i.engine.initIsApart() {
		*stats.Processes++ // PID 1
	}
	if i.boundsProcesses() {
		stats.ForksDenied = &events.PidsDenied
	} else if stats.Processes != nil {
		*stats.Processes -= i.cell.StandingBy()
	}
	return stats, nil
}

// boundsProcesses says that the group counts processes against a limit that was asked for.
func (i *instance) boundsProcesses() bool {
	return i.spec.Limits.Processes > 0 && i.engine.holds(cgroup.Pids)
}

// usageOfNobody is that of a cell in which nothing has run and that has no group. It is PID
// 1 alone.
func (i *instance) usageOfNobody() (stats sandbox.Stats) {
	stats.Processes, stats.OOMKills, stats.CPUTime = new(int64(1)), new(int64), new(time.Duration)
	if i.engine.holds(cgroup.Memory) {
		stats.MemoryBytes, stats.MemoryPeakBytes = new(int64), new(int64)
	}
	if i.boundsProcesses() {
		stats.ForksDenied = new(int64)
	}
	return stats
}

// diskUsage fills in what the cell has written to what is its own.
func (i *instance) diskUsage(stats *sandbox.Stats) error {
	if i.disk != "" && i.diskBound == 0 {
		return nil // the host's disk is not the cell's own
	}
	written, left, err := i.cell.Usage()
	if err != nil {
		return err
	}
	stats.DiskBytes, stats.DiskFreeBytes = &written, &left
	return nil
}

// kill begins the end of everything in the cell.
func (i *instance) kill(paused bool) (err error) {
	if paused {
		// Version 1 freezes so hard that not even SIGKILL gets through.
		err = i.group().Thaw()
	}
	i.sample(i.engine.log)
	err = errors.Join(err, i.cell.Kill())
	if group := i.group(); group != nil {
		// A process that waits for a slow disk would end when it is served.
		err = errors.Join(err, group.LiftRates())
	}
	return err
}

// ended removes what is left after the end, whatever has brought it. PID 1 is gone
// only when every process of its pid namespace is, so the group is empty then.
func (i *instance) ended() {
	status, err := i.cell.Wait()
	i.Ended(func() sandbox.Exit { return i.unasked(status.Signal.String()) }, func() error {
		defer i.engine.living.Delete(i)
		err := errors.Join(err, i.service.Close(), i.network.Leave())
		// What is kept for forks is open on the disk.
		err = errors.Join(joinRemoval(context.Background(), i.quit(), err), i.forks.close(), i.removeDisk())
		i.engine.letLayer(i.layer, i.root)
		i.leaveFamily()
		return err
	}, i.engine.log)
}

// unasked finds out why PID 1 ended though nobody asked it to.
func (i *instance) unasked(signal string) sandbox.Exit {
	if i.group().OutOfMemory() {
		return sandbox.Exit{Cause: sandbox.OutOfMemory, Detail: "the memory limit was reached"}
	}
	return sandbox.Exit{Cause: sandbox.Crashed, Detail: fmt.Sprintf("its init was ended from outside (%s)", signal)}
}
