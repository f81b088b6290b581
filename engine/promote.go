package engine

import (
	"context"
	"errors"
	"time"

	"aether/sandbox"
)

// Promote makes a template of a sandbox as it is now, by a fork: the sandbox goes on. The
// template belongs to the tenant of the sandbox, and its memory is kept on disk where the
// driver can: there is no recipe to prepare it anew from. A paused sandbox that may be
// resumed by use is. Errors: as PrepareTemplate; NotFound for the sandbox.
func (e *Engine) Promote(ctx context.Context, who Caller, id string, req PromoteRequest) (TemplateInfo, error) {
	if err := req.validate(who); err != nil {
		return TemplateInfo{}, err
	}
	if e.fleet == nil {
		return TemplateInfo{}, errNoState
	}
	source, err := e.fleet.index.find(who, id)
	if err != nil {
		return TemplateInfo{}, err
	}
	asked := struct {
		Verb, ID string
		PromoteRequest
	}{"promote", id, req}
	return e.declare(ctx, who, req.Key, asked, func(ctx context.Context) (*version, error) {
		return e.fleet.catalogue.promote(ctx, who, source, req)
	})
}

func (c *catalogue) promote(ctx context.Context, who Caller, source *box, req PromoteRequest) (*version, error) {
	c.mu.Lock()
	v, err := c.next(who, templateKey{source.tenant, req.Name}, declaration{req.Tags, req.Ahead, req.Version, ""})
	if err != nil {
		c.mu.Unlock()
		return nil, err
	}
	v.record.Recipe, v.record.Source = Recipe{Name: req.Name, Spec: source.copy().Spec}, source.id
	b := c.start(ctx, v, "", nil, func(ctx context.Context, notify func(string)) (*Template, error) {
		return c.granted(who, v, func() (*Template, error) { return c.branch(ctx, who, v, source, notify) })
	})
	c.mu.Unlock()
	if err := b.wait(ctx, nil); err != nil {
		return nil, err
	}
	return v, nil
}

// branch makes a template by a fork of a sandbox.
func (c *catalogue) branch(ctx context.Context, who Caller, v *version, source *box, notify func(string)) (*Template, error) {
	start := time.Now()
	done, err := source.take(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := c.fleet.wake(ctx, who, source); err != nil {
		return nil, err
	}
	r := source.copy()
	forker, ok := source.instance().(sandbox.Forker)
	if !ok {
		return nil, &sandbox.Error{Class: sandbox.Unsupported, Reason: r.Driver + " cannot fork sandboxes"}
	}
	notify(StepFork)
	var made []sandbox.Instance
	err = soon(ctx, func() (err error) {
		made, err = forker.Fork(c.fleet.revealing(ctx, source.tenant), []sandbox.Spec{childSpec(r.Spec, v.id)})
		return err
	})
	if err != nil {
		return nil, err
	}
	var left Resident
	if r.Resident != nil {
		left = *r.Resident
	}
	return c.fleet.engine.templateOf(ctx, source.driver, made[0], v.record.Recipe, left, start, notify)
}

// templateOf makes an instance that runs a template, or leaves nothing of it.
func (e *Engine) templateOf(ctx context.Context, driver sandbox.Driver, instance sandbox.Instance, recipe Recipe, left Resident, start time.Time, notify func(string)) (*Template, error) {
	t := &Template{origin: newOrigin(e, recipe.Name, instance, left), recipe: recipe, driver: driver}
	var err error
	if t.fidelity, err = fidelityOf(instance, driver.Info().Name); err == nil {
		err = t.settle(ctx, notify)
	}
	if err != nil {
		return nil, errors.Join(err, t.close(ctx))
	}
	t.took = time.Since(start)
	return t, nil
}
