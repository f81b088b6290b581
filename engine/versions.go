package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"aether/sandbox"
)

// change writes the record of a version anew. c.writing is held.
func (c *catalogue) change(v *version, to func(*templateRecord)) error {
	c.mu.Lock()
	next := v.record
	c.mu.Unlock()
	to(&next)
	next.Forks, next.Living = 0, 0 // which are this engine's
	if err := c.records.Save(v.id, next); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	to(&v.record)
	return nil
}

// settle has a version be what was made, from when its record is on disk. If it cannot be,
// nothing is left of what was made.
func (c *catalogue) settle(ctx context.Context, v *version, t *Template) (err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	first := !v.declared
	if !first && !c.has(v) {
		gone := &sandbox.Error{Class: sandbox.NotFound, Op: "template " + v.name(), Reason: "it was removed while it was prepared anew"}
		return errors.Join(gone, t.close(ctx))
	}
	defer func() {
		if err == nil {
			return
		}
		err = errors.Join(err, t.close(ctx))
		if first {
			err = errors.Join(err, c.records.Remove(v.id))
		}
	}()
	if err := c.change(v, settled(t)); err != nil {
		return err
	}
	if first && v.record.Source != "" {
		if err := c.keep(ctx, v, t); err != nil {
			return err
		}
	}
	c.publish(v, t)
	if err := c.retire(ctx, v); err != nil {
		c.fleet.engine.log.Error("engine: a version of a template that nothing names could not be removed", "template", v.name(), "err", err)
	}
	return nil
}

// settled is what becomes of the record of a version that is ready.
func settled(t *Template) func(*templateRecord) {
	return func(r *templateRecord) {
		info, resident := t.Driver(), t.resident
		r.State, r.Reason, r.Step = TemplateReady, "", ""
		r.Driver, r.Boundary, r.Fidelity, r.Resident = info.Name, info.Boundary, t.fidelity, &resident
		r.Prepared, r.Took = t.prepared, t.took
		if t.commands != nil { // and it was not restored from its memory
			r.Commands = t.commands
		}
	}
}

// publish lets the forks of a template begin.
func (c *catalogue) publish(v *version, t *Template) {
	e := c.fleet.engine
	e.tree.add(Node{ID: v.id, Template: v.key.name, Born: t.prepared, Took: t.took})
	c.mu.Lock()
	v.declared, v.template = true, t
	c.fill(v)
	c.mu.Unlock()
	t.watch(func() { c.ended(v, t) })
}

// fill begins to keep children of a version ready, if that is wanted. c.mu is held.
func (c *catalogue) fill(v *version) {
	if v.template == nil || v.record.Ahead == 0 {
		return
	}
	who := v.record.who()
	size := v.record.Ahead
	e := c.fleet.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	v.pool = e.startPool(poolKey{v.key.tenant, v.name()}, v.template, PoolOptions{Size: size,
		fork: func(ctx context.Context, t *Template, specs []sandbox.Spec) ([]*Child, error) {
			return c.fork(ctx, who, v, t, specs)
		},
		low: func(ready int) {
			c.fleet.tell([]Event{{Time: time.Now().Round(0), Kind: EventPoolLow, Tenant: v.key.tenant,
				Detail: map[string]string{"template": v.name(), "ready": strconv.Itoa(ready), "size": strconv.Itoa(size)}}})
		}})
}

// ended is what becomes of a version whose sandbox has ended while nobody asked for that.
func (c *catalogue) ended(v *version, t *Template) {
	c.mu.Lock()
	if v.template != t {
		c.mu.Unlock()
		return
	}
	c.failed(v, t.gone())
	pool := v.pool
	v.template, v.pool = nil, nil
	c.mu.Unlock()
	err := t.gone()
	if pool != nil {
		err = errors.Join(err, pool.Close(context.Background()))
	}
	c.fleet.engine.log.Error("engine: the sandbox of a template has ended", "template", v.name(), "tenant", v.key.tenant, "err", err)
}

// retire has the tags of a version be of no other, and removes the versions that neither a
// tag nor the name alone means any more. c.writing is held.
func (c *catalogue) retire(ctx context.Context, newest *version) (err error) {
	c.mu.Lock()
	list, latest := slices.Clone(c.versions[newest.key]), c.latest(newest.key)
	taken := slices.Clone(newest.record.Tags)
	c.mu.Unlock()
	for _, v := range slices.Backward(list) {
		if v == newest || !v.declared {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(v.record.Tags), func(tag string) bool { return slices.Contains(taken, tag) })
		taken = append(taken, left...)
		switch {
		case v != latest && len(left) == 0:
			err = errors.Join(err, c.discard(ctx, v))
		case len(left) != len(v.record.Tags):
			err = errors.Join(err, c.change(v, func(r *templateRecord) { r.Tags = left }))
		}
	}
	return err
}

// discard removes a version. Sandboxes that were made of it live on. c.writing is held.
func (c *catalogue) discard(ctx context.Context, v *version) error {
	if err := c.records.Remove(v.id); err != nil {
		return err
	}
	c.mu.Lock()
	c.drop(v)
	t, pool, grant := v.template, v.pool, v.grant
	v.template, v.pool, v.grant = nil, nil, nil
	c.mu.Unlock()
	if v.record.Kept != "" {
		c.fleet.sweeper.note(v.record.Driver)
	}
	var err error
	if pool != nil {
		err = pool.Close(ctx)
	}
	if t != nil {
		err = errors.Join(err, t.close(ctx))
	}
	if grant != nil {
		grant.Give()
	}
	return err
}

// RemoveTemplate removes a version, or all of a name if the name alone is given. One that
// is being prepared is given up. Sandboxes that were made of it live on. Errors: NotFound.
func (e *Engine) RemoveTemplate(ctx context.Context, who Caller, template string) error {
	ctx, release, err := e.enterFleet(ctx)
	if err != nil {
		return err
	}
	defer release()
	list, err := e.fleet.catalogue.meant(who, template)
	if err != nil {
		return err
	}
	for _, v := range list {
		err = errors.Join(err, e.fleet.catalogue.remove(ctx, v))
	}
	return err
}

// meant are the versions that are to be removed.
func (c *catalogue) meant(who Caller, template string) ([]*version, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.find(who, template)
	if err != nil {
		return nil, err
	}
	if ref, err := parseRef(template); err == nil && ref.whole() && v.id != template {
		return slices.Clone(c.versions[v.key]), nil
	}
	return []*version{v}, nil
}

func (c *catalogue) remove(ctx context.Context, v *version) error {
	c.giveUp(v)
	if err := c.removeReady(ctx, v); err != nil {
		return fmt.Errorf("engine: remove template %s: %w", v.name(), err)
	}
	c.giveUp(v) // what somebody began meanwhile, who wanted a sandbox of it
	return nil
}

// giveUp ends the build of a version, if there is one.
func (c *catalogue) giveUp(v *version) {
	c.mu.Lock()
	b := v.build
	c.mu.Unlock()
	if b != nil {
		b.cancel(&sandbox.Error{Class: sandbox.Conflict, Op: "template " + v.name(), Reason: "it was removed while it was prepared"})
		<-b.done
	}
}

// removeReady removes a version that is not being prepared for the first time.
func (c *catalogue) removeReady(ctx context.Context, v *version) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if !c.has(v) {
		return nil // it never was ready, or somebody else removed it
	}
	return c.discard(ctx, v)
}

// ChangeTemplate changes the tags of a version, or how many children are kept ready.
// Errors: Invalid; NotFound; Conflict while it is prepared for the first time.
func (e *Engine) ChangeTemplate(ctx context.Context, who Caller, template string, change TemplateChange) (TemplateInfo, error) {
	said := declaration{tags: change.Tags}
	if change.Ahead != nil {
		said.ahead = *change.Ahead
	}
	if err := said.validate(who); err != nil {
		return TemplateInfo{}, err
	}
	ctx, release, err := e.enterFleet(ctx)
	if err != nil {
		return TemplateInfo{}, err
	}
	defer release()
	v, err := e.fleet.catalogue.alter(ctx, who, template, change)
	if err != nil {
		return TemplateInfo{}, err
	}
	return e.GetTemplate(ctx, who, v.id)
}

func (c *catalogue) alter(ctx context.Context, who Caller, template string, change TemplateChange) (*version, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	v, err := c.find(who, template)
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return v, c.apply(ctx, v, change)
}

// join adds what somebody said of a version that was made for somebody else too.
func (c *catalogue) join(v *version, said declaration) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if !c.has(v) {
		return noTemplate(v.name()) // it was removed just now, and is not to be written again
	}
	c.mu.Lock()
	tags, ahead := uniqueTags(append(slices.Clone(v.record.Tags), said.tags...)), max(v.record.Ahead, said.ahead)
	same := slices.Equal(tags, v.record.Tags) && ahead == v.record.Ahead
	c.mu.Unlock()
	if same {
		return nil
	}
	return c.apply(context.Background(), v, TemplateChange{tags, &ahead})
}

// apply changes a version. c.writing is held.
func (c *catalogue) apply(ctx context.Context, v *version, change TemplateChange) error {
	if !v.declared {
		return &sandbox.Error{Class: sandbox.Conflict, Op: "template " + v.name(), Reason: "it is being prepared", Retry: true}
	}
	err := c.change(v, func(r *templateRecord) {
		if change.Tags != nil {
			r.Tags = uniqueTags(change.Tags)
		}
		if change.Ahead != nil {
			r.Ahead = *change.Ahead
		}
	})
	if err == nil && change.Ahead != nil {
		err = c.resize(ctx, v)
	}
	if err == nil && change.Tags != nil {
		err = c.retire(ctx, v)
	}
	return err
}

// resize has the pool of a version be of the size that its record says.
func (c *catalogue) resize(ctx context.Context, v *version) error {
	c.mu.Lock()
	pool := v.pool
	v.pool = nil
	c.mu.Unlock()
	var err error
	if pool != nil {
		err = pool.Close(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fill(v)
	return err
}
