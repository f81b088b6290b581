package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"aether/sandbox"
)

const (
	// endAgain is when the end of a sandbox is tried again that could not be ended.
	endAgain = 10 * time.Second
	// stopAtOnce is how many sandboxes are paused or ended at once when the engine stops.
	stopAtOnce = 16
	// maxDetail bounds what an event says of why.
	maxDetail = 1000
)

// Destroy ends a sandbox, and removes what was kept of it. One that has ended already is
// no error. Errors: NotFound.
func (e *Engine) Destroy(ctx context.Context, who Caller, id string) error {
	ctx, b, release, err := e.turn(ctx, who, id)
	if err != nil {
		return err
	}
	defer release()
	return e.fleet.destroy(ctx, b, sandbox.Exit{Cause: sandbox.Destroyed})
}

// destroyNow is Destroy of a box, without an end of the waiting for its turn.
func (f *fleet) destroyNow(ctx context.Context, b *box) error {
	ctx = context.WithoutCancel(ctx)
	release, err := b.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	return f.destroy(ctx, b, sandbox.Exit{Cause: sandbox.Destroyed})
}

// destroy ends a box whose turn the caller has. What ended before by itself keeps its
// own cause.
func (f *fleet) destroy(ctx context.Context, b *box, exit sandbox.Exit) error {
	ctx = context.WithoutCancel(ctx)
	if b.copy().State == Ended {
		return nil
	}
	if instance := b.instance(); instance != nil {
		b.leave(true)
		if err := instance.Destroy(ctx); err != nil {
			b.leave(false)
			return err
		}
		if own, err := instance.Wait(ctx); err == nil && own.Cause != sandbox.Destroyed {
			exit = own
		}
		b.unserved()
	}
	return f.end(b, exit)
}

// end writes down that a box has ended, of which nothing runs any more. A record that
// cannot be written does not bring it back to life: the next engine finds that it ran,
// and says the same. But the checkpoint of a paused one is not removed before nobody
// will look for it. Who is told of the end can have what the box took, at once: what only a
// paused one could still need is kept until its end is written.
func (f *fleet) end(b *box, exit sandbox.Exit) (left error) {
	paused := b.copy().State == Paused
	if !paused {
		left = f.giveBack(b)
	}
	to, event := ended(exit)
	happened := []Event{event}
	if exit.Cause == sandbox.OutOfMemory {
		happened = []Event{{Kind: EventLimitReached, Detail: map[string]string{"limit": "memory"}}, event}
	}
	if err := b.change(to, happened...); err != nil {
		if paused {
			return err
		}
		f.engine.log.Error("engine: that a sandbox has ended could not be written", "sandbox", b.id, "err", err)
		next := b.copy()
		to(&next)
		b.set(next, false)
		f.tell(b.stamp(happened))
	}
	if paused {
		left = f.giveBack(b)
	}
	f.noteEnd(b.copy())
	f.engine.tree.end(b.id, time.Now())
	f.catalogue.count(b.view(), 0, -1)
	f.forget(f.index.end(b))
	return errors.Join(left, b.clean(""))
}

// giveBack ends what a box, or what is left of it, takes of its tenant's quota, and its use
// of volumes.
func (f *fleet) giveBack(b *box) error {
	f.endMarks(b)
	b.grant.Give()
	return f.leaveVolumes(b.copy())
}

// ended is what becomes of the record of a sandbox that has ended, and the event.
func ended(exit sandbox.Exit) (func(*record), Event) {
	exit.Detail = clip(exit.Detail, maxDetail)
	detail := map[string]string{"cause": string(exit.Cause)}
	if exit.Detail != "" {
		detail["detail"] = exit.Detail
	}
	return func(r *record) {
		r.State, r.Exit, r.EndedAt = Ended, &exit, time.Now().Round(0)
		r.Expires, r.Kept, r.Fidelity, r.Reason, r.Interrupted = time.Time{}, "", "", "", false
	}, Event{Kind: EventEnded, Detail: detail}
}

// endedBy is what becomes of a record that does not say yet what an event has told.
func endedBy(told Event) func(*record) {
	to, _ := ended(sandbox.Exit{Cause: sandbox.Cause(told.Detail["cause"]), Detail: told.Detail["detail"]})
	return func(r *record) {
		to(r)
		r.EndedAt, r.Changes = told.Time, nil
	}
}

// watch notes the end of an instance that nobody has asked for.
func (b *box) watch(instance sandbox.Instance) {
	exit, err := instance.Wait(context.Background())
	if err != nil {
		exit = sandbox.Exit{Cause: sandbox.Crashed, Detail: "why is not known: " + err.Error()}
	}
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	if b.instance() != instance {
		return // who ended it has said why
	}
	b.unserved()
	if err := b.fleet.end(b, exit); err != nil {
		b.fleet.engine.log.Error("engine: what a sandbox left could not be removed", "sandbox", b.id, "err", err)
	}
}

// expire does what is to happen when the time of a box is over.
func (f *fleet) expire(b *box) {
	ctx, release, err := f.engine.enter(context.Background())
	if err != nil {
		return // the engine is closed, which ends or pauses everything
	}
	defer release()
	done, err := b.take(ctx)
	if err != nil {
		return
	}
	defer done()
	r := b.copy()
	if b.instance() == nil || r.Expires.IsZero() {
		return
	}
	if time.Now().Before(r.Expires) {
		b.schedule()
		return
	}
	if err := f.overdue(ctx, b, r.Then); err != nil && ctx.Err() == nil {
		f.engine.log.Error("engine: a sandbox whose time is over could not be ended", "sandbox", b.id, "err", err)
		b.mu.Lock()
		b.timer = time.AfterFunc(endAgain, func() { f.expire(b) })
		b.mu.Unlock()
	}
}

// keeping is how a sandbox is paused whose time is over, if it is.
func (t Then) keeping() (how keeping, pauses bool) {
	switch t {
	case ThenPause:
		return keeping{filesDo: true}, true
	case ThenPauseFiles:
		return keeping{fidelity: sandbox.Filesystem}, true
	}
	return keeping{}, false
}

// overdue pauses a box, or ends it. One that cannot be paused is ended, with the reason.
func (f *fleet) overdue(ctx context.Context, b *box, then Then) error {
	exit := sandbox.Exit{Cause: sandbox.Expired}
	if how, pauses := then.keeping(); pauses {
		err := f.keep(ctx, b, how)
		if err == nil || ctx.Err() != nil {
			return err
		}
		exit.Detail = "it could not be paused: " + err.Error()
	}
	return f.destroy(ctx, b, exit)
}

// stop pauses every box that was made to outlive the engine and ends the others. What
// could not be paused, or not before the context ended, is ended with the reason.
func (f *fleet) stop(ctx context.Context) error {
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	room := make(chan struct{}, stopAtOnce)
	for _, b := range f.index.each() {
		if b.instance() == nil {
			continue
		}
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			err := f.stopOne(ctx, b)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (f *fleet) stopOne(ctx context.Context, b *box) error {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	if b.instance() == nil {
		return nil
	}
	exit := sandbox.Exit{Cause: sandbox.Stopped, Detail: "it was not made to outlive the engine"}
	if b.copy().Keep {
		err := f.keep(ctx, b, keeping{filesDo: true, interrupted: true})
		if err == nil {
			return nil
		}
		exit.Detail = "it could not be kept: " + err.Error()
	}
	return f.destroy(ctx, b, exit)
}

// shut gives back what the fleet holds of the host. It is idempotent.
func (f *fleet) shut(ctx context.Context) error {
	f.closing.Do(func() {
		errs := []error{f.drivers.Close(ctx)}
		if f.history != nil {
			errs = append(errs, f.history.shut())
		}
		if f.answers != nil {
			errs = append(errs, f.answers.journal.Close())
		}
		if f.rights.audit != nil {
			errs = append(errs, f.rights.audit.Close())
		}
		if f.volumes != nil {
			errs = append(errs, f.volumes.store.Close())
		}
		if f.dir != nil {
			errs = append(errs, f.dir.Close())
		}
		f.closed = errors.Join(errs...)
	})
	return f.closed
}
