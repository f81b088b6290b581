package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"aether/engine/state"
	"aether/sandbox"
)

// Pause makes a sandbox a checkpoint on disk, of which nothing runs. It keeps its id,
// and goes on from there when it is resumed. keep is Checkpoint, as is the empty one,
// or Filesystem: then its processes end. Errors: Invalid; NotFound; Conflict if it is
// paused, or has what its driver cannot keep; Unsupported if the driver cannot keep
// that at all.
func (e *Engine) Pause(ctx context.Context, who Caller, id string, keep sandbox.Fidelity) (Sandbox, error) {
	if err := checkFidelity(keep); err != nil {
		return Sandbox{}, err
	}
	ctx, b, release, err := e.turn(ctx, who, id)
	if err != nil {
		return Sandbox{}, err
	}
	defer release()
	switch r := b.copy(); r.State {
	case Ended:
		return Sandbox{}, r.gone()
	case Paused:
		return Sandbox{}, r.paused()
	}
	if err := e.fleet.keep(ctx, b, keeping{fidelity: keep}); err != nil {
		return Sandbox{}, fmt.Errorf("engine: pause %s: %w", id, state.Full(err))
	}
	return b.view(), nil
}

// checkFidelity refuses what no snapshot can be of. Errors: Invalid.
func checkFidelity(f sandbox.Fidelity) error {
	switch f {
	case "", sandbox.Filesystem, sandbox.Checkpoint:
		return nil
	}
	return sandbox.Invalidf("fidelity", "%.40q is not one of %s, %s", string(f), sandbox.Filesystem, sandbox.Checkpoint)
}

// Resume has a paused sandbox go on, with all that was kept of it if give is empty; or
// its files alone, for what cannot go on on this host any more. Errors: Invalid;
// NotFound; Conflict if it runs, or cannot go on so; Unsupported if the driver cannot
// give that.
func (e *Engine) Resume(ctx context.Context, who Caller, id string, give sandbox.Fidelity) (Sandbox, error) {
	if err := checkFidelity(give); err != nil {
		return Sandbox{}, err
	}
	ctx, b, release, err := e.turn(ctx, who, id)
	if err != nil {
		return Sandbox{}, err
	}
	defer release()
	switch r := b.copy(); r.State {
	case Ended:
		return Sandbox{}, r.gone()
	case Running:
		return Sandbox{}, &sandbox.Error{Class: sandbox.Conflict, Op: "engine: " + id, Reason: "the sandbox runs"}
	}
	if err := e.fleet.resume(ctx, who, b, give); err != nil {
		return Sandbox{}, err
	}
	return b.view(), nil
}

// keeping is how a sandbox is paused.
type keeping struct {
	// fidelity is what is kept; empty is memory.
	fidelity sandbox.Fidelity
	// filesDo: where memory cannot be kept, its files are, and the record says why.
	filesDo bool
	// interrupted: the engine is being stopped, and the next one resumes it.
	interrupted bool
}

// keep pauses a box that runs and whose turn the caller has. If it fails, the box runs
// on. The record is on disk before the instance is ended, and the checkpoint before
// the record.
func (f *fleet) keep(ctx context.Context, b *box, how keeping) (err error) {
	instance := b.instance()
	if instance == nil {
		return b.copy().gone()
	}
	keeper, err := b.keeper(instance)
	if err != nil {
		return err
	}
	b.leave(true)
	defer b.leave(false)
	kept := fmt.Sprintf("kept-%d", b.copy().Instances)
	dir := filepath.Join(f.records.Home(b.id), kept)
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	fidelity, reason, thaw, err := how.checkpoint(ctx, instance, keeper, dir)
	if err != nil {
		return err
	}
	to, event := paused(kept, fidelity, reason, how)
	if fidelity == sandbox.Checkpoint {
		tellClosed(event.Detail, instance)
	}
	if err := b.change(to, event); err != nil {
		return errors.Join(err, thaw())
	}
	b.unserved()
	f.endMarks(b)
	if err := f.rights.resize(b); err != nil {
		f.engine.log.Error("engine: what a paused sandbox needs no more could not be given back to its tenant", "sandbox", b.id, "err", err)
	}
	if err := instance.Destroy(context.WithoutCancel(ctx)); err != nil {
		f.engine.log.Error("engine: the instance of a paused sandbox could not be ended", "sandbox", b.id, "err", err)
	}
	f.letGoOfVolumes(b.copy())
	f.noteEnd(b.copy())
	return nil
}

// keeper is the instance as one that can be kept. Errors: Unsupported.
func (b *box) keeper(instance sandbox.Instance) (sandbox.Snapshotter, error) {
	_, restores := b.driver.(sandbox.Restorer)
	keeper, keeps := instance.(sandbox.Snapshotter)
	if !keeps || !restores {
		return nil, &sandbox.Error{Class: sandbox.Unsupported, Reason: b.copy().Driver + " keeps nothing of a sandbox"}
	}
	return keeper, nil
}

// checkpoint writes what is to be kept of an instance to dir, or less where that does;
// reason says then why.
func (how keeping) checkpoint(ctx context.Context, instance sandbox.Instance, keeper sandbox.Snapshotter, dir string) (keep sandbox.Fidelity, reason string, thaw func() error, err error) {
	keep = cmp.Or(how.fidelity, sandbox.Checkpoint)
	thaw, err = checkpoint(ctx, instance, keeper, dir, keep)
	if err == nil || !how.filesDo || keep == sandbox.Filesystem || ctx.Err() != nil {
		return keep, "", thaw, err
	}
	reason = clip(err.Error(), maxDetail)
	thaw, err = checkpoint(ctx, instance, keeper, dir, sandbox.Filesystem)
	return sandbox.Filesystem, reason, thaw, err
}

// checkpoint writes the state of an instance to dir, where it can such that nothing runs
// from then on; thaw undoes that. Some drivers can only read what runs.
func checkpoint(ctx context.Context, instance sandbox.Instance, keeper sandbox.Snapshotter, dir string, keep sandbox.Fidelity) (thaw func() error, err error) {
	thaw = func() error { return nil }
	if pauser, ok := instance.(sandbox.Pauser); ok {
		switch err := pauser.Pause(ctx); sandbox.ClassOf(err) {
		case sandbox.Unavailable, sandbox.Unsupported: // then it is read while it runs
		default:
			if err != nil {
				return nil, err
			}
			thaw = func() error { return pauser.Resume(context.WithoutCancel(ctx)) }
		}
	}
	err = soon(ctx, func() error { return keeper.Snapshot(ctx, dir, keep) })
	if err == nil {
		return thaw, nil
	}
	if thawed := thaw(); thawed != nil || sandbox.ClassOf(err) != sandbox.Conflict || ctx.Err() != nil {
		return nil, errors.Join(err, thawed)
	}
	return func() error { return nil }, soon(ctx, func() error { return keeper.Snapshot(ctx, dir, keep) })
}

// paused is what becomes of the record of a sandbox that is paused, and the event.
func paused(kept string, fidelity sandbox.Fidelity, reason string, how keeping) (func(*record), Event) {
	detail := map[string]string{"fidelity": string(fidelity)}
	if reason != "" {
		detail["reason"] = reason
	}
	return func(r *record) {
		r.State, r.Kept, r.Fidelity, r.Reason, r.Interrupted = Paused, kept, fidelity, reason, how.interrupted
		if !how.interrupted {
			r.Expires = time.Time{} // its time begins anew
		}
	}, Event{Kind: EventPaused, Detail: detail}
}

// resume makes a new instance of a paused box, whose turn the caller has. If it fails,
// the box stays paused.
func (f *fleet) resume(ctx context.Context, who Caller, b *box, give sandbox.Fidelity) error {
	if err := f.rights.wake(who, b, func() error { return f.goLive(ctx, b, give) }); err != nil {
		return fmt.Errorf("engine: resume %s: %w", b.id, state.Full(err))
	}
	// Drivers have what they still need of the checkpoint open or mounted.
	if err := b.clean(""); err != nil {
		f.engine.log.Error("engine: the checkpoint of a sandbox that was resumed could not be removed", "sandbox", b.id, "err", err)
	}
	return nil
}

// goLive restores a box and has the instance serve it.
func (f *fleet) goLive(ctx context.Context, b *box, give sandbox.Fidelity) error {
	r := b.copy()
	over := ""
	if give == sandbox.Filesystem {
		over = cmp.Or(r.Spec.Image, sandbox.HostImage) // whatever has become of it
	}
	give = cmp.Or(give, r.Fidelity)
	driver, instance, err := f.restore(ctx, r, r.nextInstance(), b.keptDir(), give)
	if sandbox.ClassOf(err) == sandbox.Conflict && over != "" {
		f.engine.log.Warn("engine: the files of a sandbox are put over an image that has changed", "sandbox", b.id, "why", err)
		driver, instance, err = f.restoreOver(ctx, r, r.nextInstance(), b.keptDir(), give, over)
	}
	if err != nil {
		f.letGoOfVolumes(b.copy())
		return err
	}
	to, event := resumed(give, r.Reason)
	tellClosed(event.Detail, instance)
	if err := b.change(to, event); err != nil {
		err = errors.Join(err, instance.Destroy(context.WithoutCancel(ctx)))
		f.letGoOfVolumes(b.copy())
		return err
	}
	b.serve(driver, instance)
	return nil
}

// resumed is what becomes of the record of a sandbox that runs again, and the event. Its
// time begins anew, unless the engine interrupted it.
func resumed(give sandbox.Fidelity, reason string) (func(*record), Event) {
	detail := map[string]string{"fidelity": string(give)}
	if reason != "" {
		detail["reason"] = reason
	}
	return func(r *record) {
		if !r.Interrupted || r.Expires.IsZero() {
			r.Expires = expiry(r.Timeout)
		}
		r.State, r.Kept, r.Fidelity, r.Reason, r.Interrupted = Running, "", "", "", false
		r.Instances++
	}, Event{Kind: EventResumed, Detail: detail}
}

// restore makes an instance of a sandbox from what was kept in dir, with its volumes, which
// stay mounted also if it fails.
func (f *fleet) restore(ctx context.Context, r record, id, dir string, give sandbox.Fidelity) (sandbox.Driver, sandbox.Instance, error) {
	return f.restoreOver(ctx, r, id, dir, give, "")
}

// restoreOver is restore over an image that need not be what it was, unless that is empty.
func (f *fleet) restoreOver(ctx context.Context, r record, id, dir string, give sandbox.Fidelity, image string) (sandbox.Driver, sandbox.Instance, error) {
	driver, err := f.drivers.Named(r.Driver)
	if err != nil {
		return nil, nil, err
	}
	restorer, ok := driver.(sandbox.Restorer)
	if !ok {
		return nil, nil, &sandbox.Error{Class: sandbox.Unsupported, Reason: r.Driver + " cannot restore sandboxes"}
	}
	if err := f.uses(driver); err != nil {
		return nil, nil, err
	}
	spec := r.laterSpec(id)
	spec.Image = image
	if spec.Mounts, err = f.mountVolumes(r); err != nil {
		return nil, nil, err
	}
	instance, err := restorer.Restore(f.acting(ctx, r.Tenant, r.Asked), dir, give, spec)
	return driver, instance, err
}

// nextInstance is the id of the next instance that serves the sandbox.
func (r record) nextInstance() string { return fmt.Sprintf("%s-%d", r.ID, r.Instances) }

// laterSpec is childSpec of an instance that has what is left of the sandbox's lifetime.
func (r record) laterSpec(id string) sandbox.Spec {
	spec := r.childSpec(id)
	if life := r.Spec.Timeouts.Lifetime; life > 0 {
		spec.Timeouts.Lifetime = max(time.Millisecond, time.Until(r.Created.Add(life)))
	}
	return spec
}

func (r record) childSpec(id string) sandbox.Spec { return childSpec(r.Spec, id) }

// childSpec is what of a Spec counts for an instance that is restored or forked.
func childSpec(of sandbox.Spec, id string) sandbox.Spec {
	return sandbox.Spec{ID: id, Isolation: of.Isolation, Limits: of.Limits, Network: of.Network, Timeouts: of.Timeouts, Metadata: of.Metadata}
}
