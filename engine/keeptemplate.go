package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"aether/engine/access"
	"aether/sandbox"
)

// keptMemory is the directory below the home of a version that holds its memory.
const keptMemory = "memory"

// keep writes the memory of a template to disk, where its driver can; why it cannot is the
// reason in the record. c.writing is held.
func (c *catalogue) keep(ctx context.Context, v *version, t *Template) error {
	keeper, reason := t.keeper()
	if keeper == nil {
		return c.change(v, func(r *templateRecord) { r.Reason = reason + ", so that a restart loses this template" })
	}
	dir := filepath.Join(c.records.Home(v.id), keptMemory)
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		return err
	}
	err := t.snapshot(ctx, keeper, dir)
	if err == nil {
		err = c.change(v, func(r *templateRecord) { r.Kept = keptMemory })
	}
	if err != nil {
		return errors.Join(fmt.Errorf("engine: keep template %s: %w", v.name(), err), os.RemoveAll(dir))
	}
	return nil
}

// keeper is the template's sandbox as one whose memory can be kept, or why it cannot.
func (t *Template) keeper() (sandbox.Snapshotter, string) {
	keeper, keeps := t.instance.(sandbox.Snapshotter)
	if _, restores := t.driver.(sandbox.Restorer); !keeps || !restores || keeper.SnapshotFidelity() == sandbox.Filesystem {
		return nil, t.Driver().Name + " does not keep the memory of a sandbox here"
	}
	return keeper, ""
}

// snapshot writes the state of a template to dir. Drivers that can read only what runs are
// let.
func (t *Template) snapshot(ctx context.Context, keeper sandbox.Snapshotter, dir string) error {
	write := func() error { return soon(ctx, func() error { return keeper.Snapshot(ctx, dir, sandbox.Checkpoint) }) }
	err := write()
	if t.frozen == nil || sandbox.ClassOf(err) != sandbox.Conflict {
		return err
	}
	if err := t.frozen.Resume(ctx); err != nil {
		return err
	}
	return errors.Join(write(), t.frozen.Pause(context.WithoutCancel(ctx)))
}

// stop ends all templates when the engine is closed. Their memory is kept where it can be,
// so that the next engine need not prepare them.
func (c *catalogue) stop(ctx context.Context) error {
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	room := make(chan struct{}, stopAtOnce)
	for _, v := range c.each() {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			err := c.stopOne(ctx, v)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (c *catalogue) stopOne(ctx context.Context, v *version) error {
	c.mu.Lock()
	t := v.template
	v.template = nil
	c.mu.Unlock()
	if t == nil {
		return nil
	}
	// Each version writes its own record, and nobody else changes it any more.
	if keeper, _ := t.keeper(); keeper != nil && v.record.Kept == "" {
		if err := c.keep(ctx, v, t); err != nil {
			c.fleet.engine.log.Warn("engine: the memory of a template could not be kept; it will be prepared anew", "template", v.name(), "err", err)
		}
	}
	return t.close(ctx)
}

func (c *catalogue) each() (list []*version) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, versions := range c.versions {
		list = append(list, versions...)
	}
	return list
}

// recover takes over the templates of the last engine. None is ready yet.
func (c *catalogue) recover() error {
	all, err := c.records.All()
	if err != nil {
		return err
	}
	for id, r := range all {
		if r.Source != "" && r.Kept == "" && r.Reason == "" {
			err = errors.Join(err, c.records.Remove(id)) // the last engine was killed while it made it
			continue
		}
		key := templateKey{r.Tenant, r.Name}
		if r.State = TemplatePreparing; r.Source == "" {
			r.Reason = ""
		}
		c.versions[key] = append(c.versions[key], &version{id: id, key: key, record: r, declared: true, grant: c.fleet.rights.ledger.Hold(r.Tenant, access.UseOf(r.Recipe.Spec))})
	}
	for _, list := range c.versions {
		slices.SortFunc(list, func(a, b *version) int { return a.record.Version - b.record.Version })
		err = errors.Join(err, c.retire(context.Background(), list[len(list)-1]))
	}
	for _, b := range c.fleet.index.each() {
		if r := b.record; r.State != Ended {
			c.count(r.Sandbox, 0, 1)
		}
	}
	return err
}

// anewAtOnce is how many templates are prepared at once when an engine begins.
const anewAtOnce = 2

// prepareAnew makes, in the background, the templates of the last engine ready. Who wants
// one of them before does not wait for the others.
func (c *catalogue) prepareAnew() {
	list := c.each()
	slices.SortFunc(list, func(a, b *version) int { return b.record.Created.Compare(a.record.Created) })
	waiting := make(chan *version, len(list))
	for _, v := range list {
		waiting <- v
	}
	close(waiting)
	for range min(anewAtOnce, len(list)) {
		c.fleet.engine.watching.Go(func() {
			for v := range waiting {
				if err := c.await(c.fleet.engine.life, v); err != nil && c.fleet.engine.life.Err() == nil {
					c.fleet.engine.log.Error("engine: a template could not be prepared anew", "template", v.name(), "tenant", v.key.tenant, "err", err)
				}
			}
		})
	}
}

// await waits until a version is ready. One that is not being prepared, as after a restart
// or when its sandbox has ended, is made anew. Errors: those of the making.
func (c *catalogue) await(ctx context.Context, v *version) error {
	for {
		c.mu.Lock()
		b := v.build
		switch {
		case v.template != nil || !slices.Contains(c.versions[v.key], v):
			c.mu.Unlock()
			return nil
		case b == nil:
			b = c.start(context.Background(), v, "", nil, c.remaking(v))
		case !b.join():
			c.mu.Unlock()
			<-b.done // everybody has given it up
			continue
		}
		c.mu.Unlock()
		return b.wait(ctx, nil)
	}
}

// remaking is how a version is made that was ready before: of its memory, if that was
// kept, or else of its recipe.
func (c *catalogue) remaking(v *version) func(context.Context, func(string)) (*Template, error) {
	return func(ctx context.Context, notify func(string)) (*Template, error) {
		return c.granted(c.recordOf(v).who(), v, func() (*Template, error) {
			t, err := c.restore(ctx, v, notify)
			if err == nil || v.record.Source != "" || ctx.Err() != nil {
				return t, err
			}
			if v.record.Kept != "" {
				c.fleet.engine.log.Warn("engine: the memory of a template cannot be used; it is prepared anew", "template", v.name(), "err", err)
			}
			return c.cook(ctx, v, maxRun, notify)
		})
	}
}

// restore makes a template of the memory that was kept of it.
func (c *catalogue) restore(ctx context.Context, v *version, notify func(string)) (_ *Template, err error) {
	r, start := c.recordOf(v), time.Now()
	if r.Kept == "" {
		return nil, &sandbox.Error{Class: sandbox.NotFound, Op: "template " + v.name(), Reason: "it is lost: " + r.Reason, Remedy: "promote a sandbox again"}
	}
	driver, err := c.fleet.drivers.Named(r.Driver)
	if err != nil {
		return nil, err
	}
	restorer, ok := driver.(sandbox.Restorer)
	if !ok {
		return nil, &sandbox.Error{Class: sandbox.Unsupported, Reason: r.Driver + " cannot restore sandboxes"}
	}
	if err := c.fleet.uses(driver); err != nil {
		return nil, err
	}
	notify(StepRestore)
	instance, err := restorer.Restore(c.fleet.acting(ctx, r.Tenant, !r.Operator), filepath.Join(c.records.Home(v.id), r.Kept), sandbox.Checkpoint, childSpec(r.Recipe.Spec, v.id))
	if err != nil {
		return nil, err
	}
	return c.fleet.engine.templateOf(ctx, driver, instance, r.Recipe, *r.Resident, start, notify)
}
