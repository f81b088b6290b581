package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"aether/engine/access"
	"aether/engine/secret"
	"aether/engine/state"
	"aether/sandbox"
)

// recordFormat counts up with every change of record that older programs could not
// read.
const recordFormat = 1

// fleet is the sandboxes of an engine that has a state directory.
type fleet struct {
	engine  *Engine
	drivers *Drivers
	dir     *state.Dir
	records *state.Kind[record]
	// snapshots are those that shelf has.
	snapshots *state.Kind[snapshotRecord]
	shelf     *shelf
	used      *state.Kind[usedDriver]
	history   *history
	answers   *answers
	index     *index
	sweeper   *sweeper
	rights    *rights
	volumes   *volumes
	secrets   *secret.Store
	// catalogue is the templates of tenants, and layers what is kept of their recipes.
	catalogue *catalogue
	layers    *layers
	archives  *archives

	noting  sync.Mutex      // held while one is noted
	noted   map[string]bool // drivers that are noted as used
	closing sync.Once
	closed  error // what could not be given back
}

// usedDriver says that a driver has made sandboxes of this state directory, and may
// have left something when its program was killed.
type usedDriver struct {
	Name string `json:"name"`
}

var errNoState = &sandbox.Error{Class: sandbox.Conflict, Op: "engine", Reason: "this engine has no state directory and holds no sandboxes", Remedy: "open it with one"}

// Open makes an engine that remembers its sandboxes in Options.State. What the last
// one left is taken over: what is paused stays so, what ran when the last was killed
// has ended (sandbox.Lost) and what was left of it is removed, and what ran when the
// last was stopped is resumed in the background. Errors: Conflict if another program
// uses the directory.
func Open(opts Options) (*Engine, error) {
	e := New(opts)
	f := &fleet{engine: e, drivers: NewDrivers(opts.Drivers), index: newIndex(), shelf: newShelf(), sweeper: newSweeper(), rights: newRights(opts.Access), noted: map[string]bool{}}
	err := f.open(opts)
	if err == nil {
		err = f.recover()
	}
	if err == nil {
		err = f.layers.recover()
	}
	if err == nil {
		err = f.archives.recover()
	}
	if err == nil {
		err = f.catalogue.recover()
	}
	if err != nil {
		e.end()
		return nil, errors.Join(fmt.Errorf("engine: open: %w", err), f.shut(context.Background()))
	}
	e.fleet = f
	e.watching.Go(f.sweep)
	e.watching.Go(f.keepBudget)
	f.resumeInterrupted()
	f.catalogue.prepareAnew()
	return e, nil
}

func (f *fleet) open(opts Options) (err error) {
	if f.dir, err = opts.openState(f.engine.log); err != nil {
		return err
	}
	if f.records, err = state.NewKind[record](f.dir, "sandboxes", recordFormat, nil); err != nil {
		return err
	}
	if f.catalogue, err = openCatalogue(f); err != nil {
		return err
	}
	if f.layers, err = openLayers(f); err != nil {
		return err
	}
	if f.archives, err = openArchives(f); err != nil {
		return err
	}
	f.rights.giveWay = f.layers.giveWay
	if f.snapshots, err = state.NewKind[snapshotRecord](f.dir, "snapshots", snapshotFormat, nil); err != nil {
		return err
	}
	if f.used, err = state.NewKind[usedDriver](f.dir, "drivers", 1, nil); err != nil {
		return err
	}
	if f.history, err = openHistory(f.dir); err != nil {
		return err
	}
	if f.answers, err = openAnswers(f.dir); err != nil {
		return err
	}
	if f.rights.audit, err = access.OpenAudit(f.dir, access.AuditOptions{Logger: f.engine.log}); err != nil {
		return err
	}
	if err = f.openSecrets(); err != nil {
		return err
	}
	return f.openVolumes(opts.State)
}

func (o Options) openState(log *slog.Logger) (*state.Dir, error) {
	if o.beforeWrite != nil {
		return state.OpenWatched(o.State, log, o.beforeWrite)
	}
	return state.Open(o.State, log)
}

// recover takes over what the last engine left.
func (f *fleet) recover() error {
	if err := f.reap(context.Background()); err != nil {
		return err
	}
	if err := f.recoverSnapshots(); err != nil {
		return err
	}
	all, err := f.records.All()
	if err != nil {
		return err
	}
	boxes := make([]*box, 0, len(all))
	for _, r := range all {
		boxes = append(boxes, f.newBox(r))
	}
	slices.SortFunc(boxes, func(a, b *box) int { return byNumber(a, b.number) })
	last, oldest := f.history.told()
	for _, b := range boxes {
		f.tell(missing(b.record.Changes, last, oldest))
		f.index.add(b)
		f.takeOver(b, last[b.id])
	}
	return nil
}

// takeOver brings the record of one sandbox up to date. last is the last that was told
// of it: that its end was told and not written, as on a full disk, is no second end.
func (f *fleet) takeOver(b *box, last Event) {
	b.durable = b.record.State == Paused
	b.grant = f.rights.ledger.Hold(b.tenant, b.record.use())
	err := b.clean(b.record.Kept)
	switch b.record.State {
	case Running:
		if last.Kind == EventEnded {
			err = errors.Join(err, b.change(endedBy(last)))
			b.grant.Give()
			f.forget(f.index.end(b))
			break
		}
		err = errors.Join(err, f.lost(b, "the engine that held it was killed"))
	case Paused:
		err = errors.Join(err, f.useVolumes(b.record))
		if _, gone := os.Stat(b.keptDir()); gone != nil {
			err = errors.Join(err, f.lost(b, "its checkpoint is gone"))
		}
	case Ended:
		f.forget(f.index.end(b))
	}
	if err != nil {
		f.engine.log.Error("engine: a sandbox of the last engine could not be taken over whole", "sandbox", b.id, "err", err)
	}
}

func (f *fleet) lost(b *box, why string) error {
	return f.end(b, sandbox.Exit{Cause: sandbox.Lost, Detail: why})
}

// clean removes what is in the home of a box besides its record and what is kept.
func (b *box) clean(kept string) error {
	home := b.fleet.records.Home(b.id)
	entries, err := os.ReadDir(home)
	for _, entry := range entries {
		if entry.IsDir() && entry.Name() != kept {
			err = errors.Join(err, os.RemoveAll(filepath.Join(home, entry.Name())))
			b.fleet.sweeper.note(b.copy().Driver)
		}
	}
	return err
}

// forget removes the records of sandboxes that ended long ago.
func (f *fleet) forget(boxes []*box) {
	for _, b := range boxes {
		if err := f.records.Remove(b.id); err != nil {
			f.engine.log.Error("engine: the record of a sandbox that has ended could not be removed", "sandbox", b.id, "err", err)
		}
	}
}

// reap has the drivers that were used remove what a killed program left.
func (f *fleet) reap(ctx context.Context) error {
	used, err := f.used.All()
	if err != nil {
		return err
	}
	for name := range used {
		f.reapOne(ctx, name)
	}
	return nil
}

func (f *fleet) reapOne(ctx context.Context, name string) {
	driver, err := f.drivers.Named(name)
	if err != nil {
		f.engine.log.Warn("engine: a driver that was used is not in this build", "driver", name)
		return
	}
	if r, ok := driver.(sandbox.Reaper); ok {
		if count, err := r.Reap(ctx); err != nil && ctx.Err() == nil {
			f.engine.log.Error("engine: what nobody needs could not be removed", "driver", name, "removed", count, "err", err)
		}
	}
}

// uses notes, before the first, that a driver makes sandboxes here.
func (f *fleet) uses(driver sandbox.Driver) error {
	name := driver.Info().Name
	f.noting.Lock()
	defer f.noting.Unlock()
	if f.noted[name] {
		return nil
	}
	if err := f.used.Save(name, usedDriver{name}); err != nil {
		return err
	}
	f.noted[name] = true
	return nil
}

// tell publishes events. One that cannot be written does not undo what happened.
func (f *fleet) tell(events []Event) {
	if err := f.history.publish(events); err != nil {
		f.engine.log.Error("engine: an event could not be written", "err", err)
	}
}

// expiry is when the time of a sandbox is over that begins to run now.
func expiry(timeout time.Duration) time.Time {
	if timeout == 0 {
		return time.Time{}
	}
	return time.Now().Round(0).Add(timeout)
}
