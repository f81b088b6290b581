package cell

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"aether/internal/host/cgroup"
	"aether/internal/host/confine"
	"aether/network"
	"aether/sandbox"
)

// warmCell is what a cell is made of: namespaces, a root and a cgroup that no other
// cell has had or will have.
type warmCell struct {
	*confine.WarmCell
	group *cgroup.Group // nil where there are no cgroups, and for a cell that is vacant
	// id is what the cell calls itself already, if it is not empty.
	id string
	// vacant says that it has no place for commands.
	vacant bool
	// limited says that the group has the limits of a Spec that states none.
	limited bool
	// network has a device, and no more; nil for cells without.
	network *network.Attached
}

// state is that of the place that the cell begins with.
func (b warmCell) state() placeState {
	if b.vacant {
		return vacant
	}
	return unused
}

func (b warmCell) discard() error {
	return joinRemoval(context.Background(), b.group, errors.Join(b.Discard(), b.network.Leave()))
}

// newWarmCell makes one at once.
func (e *engine) newWarmCell(base *confine.Base, config confine.Config) (b warmCell, err error) {
	if err := e.apart(&config); err != nil {
		return b, err
	}
	if b.group, config.Group, err = e.groups.make(); err != nil {
		return b, err
	}
	if b.WarmCell, err = base.NewWarmCell(config); err != nil {
		return b, joinRemoval(context.Background(), b.group, err)
	}
	return b, nil
}

// plain is the cell of any Spec that states no limits and no id.
func plain(id string) confine.Config {
	return confine.Config{Hostname: id, Upper: defaultDisk, Processes: defaultProcesses, Ready: true}
}

// newPlainCell makes one at once for such a Spec: without a place if that can come later.
func (e *engine) newPlainCell(base *confine.Base) (b warmCell, err error) {
	if !e.host.SharesInit() {
		return e.newLimitedCell(base)
	}
	b = warmCell{id: newID(), vacant: true, limited: true}
	config := plain(b.id)
	if err := e.apart(&config); err != nil {
		return b, err
	}
	b.WarmCell, err = base.NewWarmCell(config)
	return b, err
}

// newLimitedCell makes one for such a Spec, with its place.
func (e *engine) newLimitedCell(base *confine.Base) (b warmCell, err error) {
	id := newID()
	if b, err = e.newWarmCell(base, plain(id)); err != nil {
		return b, err
	}
	b.id = id
	if err := e.limit(b.group, sandbox.Limits{}); err != nil {
		return b, errors.Join(err, b.discard())
	}
	b.limited = true
	return b, nil
}

// newReadyCell has the first command of the cell stand by too.
func (e *engine) newReadyCell(base *confine.Base) (warmCell, error) {
	b, err := e.newLimitedCell(base)
	if err != nil {
		return b, err
	}
	if err := b.Ready(); err != nil {
		return b, errors.Join(err, b.discard())
	}
	return b, nil
}

// newNetworkedCell has the device of a cell's network be there too: its making takes
// longer than all that follows.
func (e *engine) newNetworkedCell(base *confine.Base) (warmCell, error) {
	b, err := e.newReadyCell(base)
	if err != nil {
		return b, err
	}
	err = b.WithNetwork(func(fd int) (err error) {
		b.network, err = e.network.PrepareProcess(network.Process{FD: fd, OwnUser: b.OwnsNetwork()})
		return err
	})
	if err != nil {
		return b, errors.Join(err, b.discard())
	}
	return b, nil
}

// warmCells makes warm cells of one image ahead, in the background.
type warmCells struct {
	log   *slog.Logger
	make  func(*confine.Base) (warmCell, error)
	ready chan warmCell
	stop  chan struct{}
	done  sync.WaitGroup
}

func (e *engine) newWarmCells(base *confine.Base, ahead int, networked bool) *warmCells {
	b := &warmCells{log: e.log, make: e.newReadyCell, ready: make(chan warmCell, ahead-1), stop: make(chan struct{})}
	if networked {
		b.make = e.newNetworkedCell
	}
	b.done.Go(func() { b.run(base) })
	return b
}

const (
	// settle is how long the making of the next warm cell is put off while there are
	// others: the cell that has just taken one needs the same locks and
	// processors, longest if it is a fork.
	settle = 10 * time.Millisecond
	// failed is how long it is put off after a failure, and exhausted after one for
	// which the host, or a limit of this program's, has no room.
	failed    = 100 * time.Millisecond
	exhausted = time.Second
	// tellAgain is how often a failure is logged that stays.
	tellAgain = time.Minute
)

// run keeps the channel full; the one that waits to be put into it is one more. A
// failure is logged, for those who then make their own may succeed, and only
// take longer.
func (b *warmCells) run(base *confine.Base) {
	var told time.Time // when a failure was logged that still stands
	for pause := time.Duration(0); ; {
		if !b.pause(pause) {
			return
		}
		made, err := b.make(base)
		if err != nil {
			if pause = failed; time.Since(told) > tellAgain {
				told = time.Now()
				b.log.Warn("cell: no cell can be made ahead", "err", err)
			}
			if sandbox.ClassOf(unavailable(err)) == sandbox.Exhausted {
				pause = exhausted
				b.dropReady() // what is left is for those that live
			}
			continue
		}
		told = time.Time{}
		select {
		case b.ready <- made:
		case <-b.stop:
			b.drop(made)
			return
		}
		if pause = 0; len(b.ready) > 0 {
			pause = settle
		}
	}
}

// pause says false if it was ended by close.
func (b *warmCells) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-b.stop:
		return false
	}
}

// drop ends a warm cell that nobody wants any more. What cannot be removed now is
// reaped with the program.
func (b *warmCells) drop(made warmCell) {
	if err := made.discard(); err != nil {
		b.log.Warn("cell: a cell that was made ahead could not be removed", "err", err)
	}
}

func (b *warmCells) close() {
	close(b.stop)
	b.done.Wait()
	b.dropReady()
}

// dropReady ends the warm cells that there are.
func (b *warmCells) dropReady() {
	for {
		select {
		case made := <-b.ready:
			b.drop(made)
		default:
			return
		}
	}
}

// warmCellFor finds or makes what the cell will be made of. It waits for no other:
// where more are wanted than one goroutine can make, each makes its own.
func (e *engine) warmCellFor(base *base, config confine.Config, networked bool) (warmCell, error) {
	warm, plain := base.warmCells(networked).Load(), base.warm.Load()
	if warm == nil && plain == nil || config.HostNetwork || len(config.Mounts) > 0 || config.Upper != defaultDisk || config.Disk != "" {
		return e.newWarmCell(base.Base, config)
	}
	for _, w := range []*warmCells{warm, plain} {
		if made, ok := w.take(); ok {
			return made, nil
		}
	}
	return e.newPlainCell(base.Base)
}

// take gives one that is ready.
func (b *warmCells) take() (made warmCell, ok bool) {
	if b == nil {
		return made, false
	}
	select {
	case made = <-b.ready:
		return made, true
	default:
		return made, false
	}
}
