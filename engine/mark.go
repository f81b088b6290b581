package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"aether/engine/access"
	"aether/sandbox"
)

// maxMarks bounds the marks of one sandbox.
const maxMarks = 8

// Mark is a moment of a sandbox to which it can be rolled back: a fork that is frozen in
// memory. It ends with the sandbox, and when that is paused.
type Mark struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
}

// held is a mark of a box: the fork, and what it takes of the tenant's quota.
type held struct {
	Mark
	*origin
	grant *access.Grant
}

// Mark marks a sandbox as it is now, which goes on. An empty name becomes the next number.
// A paused sandbox that may be resumed by use is. Errors: Invalid; NotFound; Conflict for
// a name that is taken, or what cannot be forked; Exhausted for more than maxMarks, and by
// quota; Unsupported or Unavailable if the driver cannot fork or freeze.
func (e *Engine) Mark(ctx context.Context, who Caller, id, name string) (Mark, error) {
	if name != "" && !sandbox.IsName(name, maxName) {
		return Mark{}, sandbox.Invalidf("name", "%.80q must be lower-case letters, digits and dashes, at most %d", name, maxName)
	}
	ctx, b, release, err := e.turn(ctx, who, id)
	if err != nil {
		return Mark{}, err
	}
	defer release()
	if err := e.fleet.wake(ctx, who, b); err != nil {
		return Mark{}, err
	}
	name = cmp.Or(name, strconv.Itoa(b.marked+1))
	if err := b.mayMark(name); err != nil {
		return Mark{}, err
	}
	m, err := e.fleet.mark(ctx, who, b, name)
	if err != nil {
		return Mark{}, fmt.Errorf("engine: mark %s: %w", id, err)
	}
	return m.Mark, nil
}

// mayMark refuses a name that is taken, and one mark too many.
func (b *box) mayMark(name string) error {
	if _, err := b.markOf(name); err == nil {
		return &sandbox.Error{Class: sandbox.Conflict, Op: "engine: mark " + b.id, Field: "name", Reason: "there is a mark " + name, Remedy: "delete it first"}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.marks) >= maxMarks {
		return &sandbox.Error{Class: sandbox.Exhausted, Op: "engine: mark " + b.id, Field: "marks", Reason: fmt.Sprintf("a sandbox has at most %d marks", maxMarks),
			Remedy: "delete one, or take a snapshot"}
	}
	return nil
}

// mark makes a mark of a box that runs and whose turn the caller has. It takes memory and
// disk of the quota as a sandbox does.
func (f *fleet) mark(ctx context.Context, who Caller, b *box, name string) (*held, error) {
	spec := b.copy().Spec
	use := access.UseOf(spec)
	use.Sandboxes, use.MilliCPUs = 0, 0 // it does not run
	grant, err := f.rights.take(who, b.tenant, use)
	if err != nil {
		return nil, err
	}
	m := &held{Mark: Mark{name, time.Now().Round(0)}, grant: grant}
	_, err = f.rights.admit(spec, 1, func() (_ []*box, err error) {
		m.origin, err = f.freezeFork(ctx, b)
		return nil, err
	})
	if err != nil {
		grant.Give()
		return nil, err
	}
	b.mu.Lock()
	b.marks = append(b.marks, m)
	b.mu.Unlock()
	m.watch(func() { b.unmark(m) })
	return m, nil
}

// freezeFork forks a box and freezes the fork.
func (f *fleet) freezeFork(ctx context.Context, b *box) (*origin, error) {
	forker, ok := b.instance().(sandbox.Forker)
	if !ok {
		return nil, &sandbox.Error{Class: sandbox.Unsupported, Reason: b.copy().Driver + " cannot fork sandboxes", Remedy: "take a snapshot"}
	}
	b.marked++
	spec := b.copy().childSpec(fmt.Sprintf("%s-m%d", b.id, b.marked))
	spec.Timeouts = sandbox.Timeouts{} // it ends with the box
	var made []sandbox.Instance
	err := soon(ctx, func() (err error) {
		made, err = forker.Fork(f.revealing(ctx, b.tenant), []sandbox.Spec{spec})
		return err
	})
	if err != nil {
		return nil, err
	}
	o := newOrigin(f.engine, "", made[0], Resident{})
	if err = o.freeze(ctx); err == nil && o.frozen == nil {
		err = &sandbox.Error{Class: sandbox.Unavailable, Reason: "a fork of the sandbox cannot be frozen on this host", Remedy: "take a snapshot"}
	}
	if err != nil {
		return nil, errors.Join(err, destroyInstances(ctx, made))
	}
	return o, nil
}

// fromMark makes the next instance of a box of one of its marks.
func (f *fleet) fromMark(ctx context.Context, b *box, r record, name string) (sandbox.Driver, sandbox.Instance, error) {
	m, err := b.markOf(name)
	if err != nil {
		return nil, nil, err
	}
	made, _, err := m.forkOnce(f.revealing(ctx, b.tenant), []sandbox.Spec{r.laterSpec(r.nextInstance())})
	if err != nil {
		return nil, nil, err
	}
	return b.driver, made[0], nil
}

// markOf finds a mark. Errors: NotFound.
func (b *box) markOf(name string) (*held, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.marks {
		if m.Name == name {
			return m, nil
		}
	}
	return nil, &sandbox.Error{Class: sandbox.NotFound, Op: "engine: " + b.id, Field: "mark", Reason: "there is no mark " + strconv.Quote(clip(name, 80))}
}

// unmark forgets a mark whose fork ends or has ended.
func (b *box) unmark(m *held) {
	b.mu.Lock()
	b.marks = slices.DeleteFunc(b.marks, func(other *held) bool { return other == m })
	b.mu.Unlock()
	m.grant.Give()
}

// Marks lists the marks of a sandbox, oldest first. Errors: NotFound.
func (e *Engine) Marks(_ context.Context, who Caller, id string) ([]Mark, error) {
	if e.fleet == nil {
		return nil, errNoState
	}
	b, err := e.fleet.index.find(who, id)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]Mark, len(b.marks))
	for i, m := range b.marks {
		list[i] = m.Mark
	}
	return list, nil
}

// DeleteMark ends a mark. Errors: NotFound.
func (e *Engine) DeleteMark(ctx context.Context, who Caller, id, name string) error {
	ctx, b, release, err := e.turn(ctx, who, id)
	if err != nil {
		return err
	}
	defer release()
	m, err := b.markOf(name)
	if err != nil {
		return err
	}
	if err := m.instance.Destroy(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("engine: delete mark %s of %s: %w", name, id, err)
	}
	b.unmark(m)
	return nil
}

// endMarks ends all marks of a box. One that cannot be ended is tried again by nobody: it
// is frozen, and ends with the program.
func (f *fleet) endMarks(b *box) {
	b.mu.Lock()
	marks := slices.Clone(b.marks)
	b.mu.Unlock()
	for _, m := range marks {
		if err := m.instance.Destroy(context.Background()); err != nil {
			f.engine.log.Error("engine: a mark could not be ended", "sandbox", b.id, "mark", m.Name, "err", err)
		}
		b.unmark(m)
	}
}
