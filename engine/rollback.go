package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"aether/engine/state"
	"aether/sandbox"
)

// RollbackRequest is what a sandbox goes back to: a snapshot or a mark.
type RollbackRequest struct {
	// Snapshot is one of the sandbox's own, or that which it was made of.
	Snapshot string `json:"snapshot,omitempty"`
	// Fidelity is what of the snapshot it is given: all, if it is empty, or the files
	// alone.
	Fidelity sandbox.Fidelity `json:"fidelity,omitempty"`
	Mark     string           `json:"mark,omitempty"`
}

func (r RollbackRequest) validate() error {
	if (r.Snapshot == "") == (r.Mark == "") {
		return sandbox.Invalidf("snapshot", "name a snapshot or a mark, and one of them")
	}
	if r.Mark != "" && r.Fidelity != "" {
		return sandbox.Invalidf("fidelity", "it is that of a snapshot; a mark has everything")
	}
	return checkFidelity(r.Fidelity)
}

// Rollback has a sandbox be again what it was at a snapshot or a mark, under its id. The
// new instance lives before the old one ends; if it cannot be made, the old one goes on.
// A paused sandbox runs afterwards. Snapshot and mark can be used again. Errors: Invalid;
// NotFound for the sandbox, the snapshot or the mark; Conflict for a snapshot of another
// sandbox; Exhausted; those of the driver.
func (e *Engine) Rollback(ctx context.Context, who Caller, id string, req RollbackRequest) (Sandbox, error) {
	if err := req.validate(); err != nil {
		return Sandbox{}, err
	}
	ctx, b, release, err := e.turn(ctx, who, id)
	if err != nil {
		return Sandbox{}, err
	}
	defer release()
	if r := b.copy(); r.State == Ended {
		return Sandbox{}, r.gone()
	}
	if err := e.fleet.rollback(ctx, who, b, req); err != nil {
		return Sandbox{}, fmt.Errorf("engine: roll back %s: %w", id, state.Full(err))
	}
	return b.view(), nil
}

func (f *fleet) rollback(ctx context.Context, who Caller, b *box, req RollbackRequest) error {
	do := func() error {
		driver, instance, err := f.earlier(ctx, b, req)
		if err != nil {
			return err
		}
		return f.replace(ctx, b, driver, instance, req)
	}
	if b.copy().State == Paused {
		err := f.rights.wake(who, b, do)
		if err != nil {
			f.letGoOfVolumes(b.copy())
		}
		return err
	}
	_, err := f.rights.admit(b.copy().Spec, 1, func() ([]*box, error) { return nil, do() })
	return err
}

// earlier makes an instance of a box as it was.
func (f *fleet) earlier(ctx context.Context, b *box, req RollbackRequest) (sandbox.Driver, sandbox.Instance, error) {
	r := b.copy()
	if req.Mark != "" {
		return f.fromMark(ctx, b, r, req.Mark)
	}
	s, release, err := f.shelf.use(Caller{Tenant: b.tenant}, req.Snapshot)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	if s.record.Sandbox != b.id && s.record.ID != r.Snapshot {
		return nil, nil, &sandbox.Error{Class: sandbox.Conflict, Field: "snapshot", Reason: "the snapshot is of another sandbox",
			Remedy: "make a sandbox of it"}
	}
	return f.restore(ctx, r, r.nextInstance(), f.stateDir(s), cmp.Or(req.Fidelity, s.record.Fidelity))
}

// replace has an instance serve a box in the place of the one before, which ends.
func (f *fleet) replace(ctx context.Context, b *box, driver sandbox.Driver, instance sandbox.Instance, req RollbackRequest) error {
	to, event := rolledBack(req)
	tellClosed(event.Detail, instance)
	if err := b.change(to, event); err != nil {
		return errors.Join(err, instance.Destroy(context.WithoutCancel(ctx)))
	}
	old := b.instance()
	b.serve(driver, instance)
	if old != nil {
		if err := old.Destroy(context.WithoutCancel(ctx)); err != nil {
			f.engine.log.Error("engine: the instance of a sandbox that was rolled back could not be ended", "sandbox", b.id, "err", err)
		}
	}
	f.noteEnd(b.copy())
	if err := b.clean(""); err != nil {
		f.engine.log.Error("engine: the checkpoint of a sandbox that was rolled back could not be removed", "sandbox", b.id, "err", err)
	}
	return nil
}

// rolledBack is what becomes of the record of a sandbox that was rolled back, and the
// event. The time of one that was paused begins anew.
func rolledBack(req RollbackRequest) (func(*record), Event) {
	detail := map[string]string{}
	for name, value := range map[string]string{"snapshot": req.Snapshot, "mark": req.Mark, "fidelity": string(req.Fidelity)} {
		if value != "" {
			detail[name] = value
		}
	}
	return func(r *record) {
		if r.State == Paused {
			r.Expires = expiry(r.Timeout)
		}
		r.State, r.Kept, r.Fidelity, r.Reason, r.Interrupted = Running, "", "", "", false
		r.Instances++
	}, Event{Kind: EventRolledBack, Detail: detail}
}
