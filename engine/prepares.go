package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"aether/engine/access"
	"aether/sandbox"
)

// PrepareTemplate makes the next version of a template of the caller's tenant. Versions
// before it that no tag names are removed when it is ready; until then, and if it fails,
// they serve. Who prepares the same as somebody else at once waits for one build. notify,
// unless it is nil, is told of each step, and of what commands write (StepOutput). The preparation ends with the context of the
// last who waits for it.
//
// Errors: Invalid; Denied; Exhausted; Conflict if the version is not the next one, or a
// command or the code fails; Unsupported if no driver can fork; Timeout; and those of the
// driver.
func (e *Engine) PrepareTemplate(ctx context.Context, who Caller, req TemplateRequest, notify func(step string)) (TemplateInfo, error) {
	if err := req.validate(who); err != nil {
		return TemplateInfo{}, err
	}
	asked := struct {
		Verb string
		TemplateRequest
	}{"template", req}
	return e.declare(ctx, who, req.Key, asked, func(ctx context.Context) (*version, error) {
		return e.fleet.catalogue.prepare(ctx, who, req, notify)
	})
}

// declare makes a version unless that was done with this key before, and gives it as it is
// now.
func (e *Engine) declare(ctx context.Context, who Caller, key string, asked any, do func(context.Context) (*version, error)) (TemplateInfo, error) {
	ctx, release, err := e.enterFleet(ctx)
	if err != nil {
		return TemplateInfo{}, err
	}
	defer release()
	ids, err := e.fleet.answers.once(ctx, who, key, asked, func() ([]string, error) {
		v, err := do(ctx)
		if err != nil {
			return nil, err
		}
		return []string{v.id}, nil
	})
	if errors.Is(err, errUnkept) {
		return TemplateInfo{}, errors.Join(err, e.RemoveTemplate(ctx, who, ids[0]))
	}
	if err != nil {
		return TemplateInfo{}, fmt.Errorf("engine: %w", err)
	}
	return e.GetTemplate(ctx, who, ids[0])
}

func (c *catalogue) prepare(ctx context.Context, who Caller, req TemplateRequest, notify func(string)) (*version, error) {
	recipe := req.Recipe
	var err error
	if recipe.Spec, err = c.fleet.rights.permit(who, recipe.Spec); err != nil {
		return nil, err
	}
	said := declaration{req.Tags, req.Ahead, req.Version, ""}
	b, joined, err := c.begin(ctx, who, req, recipe, said, &notify)
	if err == nil {
		err = b.wait(ctx, &notify)
	}
	if err == nil && joined {
		err = c.join(b.version, said)
	}
	if err != nil {
		return nil, err
	}
	return b.version, nil
}

// begin finds the build of a recipe that runs already, or starts one.
func (c *catalogue) begin(ctx context.Context, who Caller, req TemplateRequest, recipe Recipe, said declaration, notify *func(string)) (b *build, joined bool, err error) {
	digest, err := digestOf(struct {
		Tenant, Driver string
		Recipe         Recipe
		Version        int
		NoCache        bool
		NoCacheFrom    int
	}{who.Tenant, req.Driver, recipe, said.version, req.NoCache, req.NoCacheFrom})
	if err != nil {
		return nil, false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.builds[digest]; b != nil && b.join() {
		return b, true, nil
	}
	v, err := c.next(who, templateKey{who.Tenant, recipe.Name}, said)
	if err != nil {
		return nil, false, err
	}
	v.record.Recipe, v.record.Asked = recipe, req.Driver
	return c.start(ctx, v, digest, notify, c.cooking(v, who, req.cached())), false, nil
}

// next is the next version of a name, of which nothing is there yet. Errors: Conflict.
// c.mu is held.
func (c *catalogue) next(who Caller, key templateKey, said declaration) (*version, error) {
	number, ahead := 1, said.ahead
	if list := c.versions[key]; len(list) > 0 {
		number = list[len(list)-1].record.Version + 1
	}
	if said.version != 0 && said.version != number {
		return nil, c.taken(key, said.version, number)
	}
	if before := c.latest(key); ahead == 0 && before != nil {
		ahead = before.record.Ahead
	}
	v := &version{id: newID(), key: key}
	v.record.ID, v.record.Tenant, v.record.Name, v.record.Version = v.id, key.tenant, key.name, number
	v.record.State, v.record.Created, v.record.Operator = TemplatePreparing, time.Now().Round(0), who.Operator
	v.record.Tags, v.record.Ahead = uniqueTags(said.tags), ahead
	c.versions[key] = append(c.versions[key], v)
	return v, nil
}

func (c *catalogue) taken(key templateKey, want, number int) error {
	e := &sandbox.Error{Class: sandbox.Conflict, Op: "template " + key.name, Field: "version",
		Reason: "it exists already", Remedy: "remove it, or prepare its next version"}
	switch {
	case want != 1:
		e.Reason = fmt.Sprintf("its next version is %d and not %d", number, want)
	case c.latest(key) == nil:
		e.Reason, e.Remedy, e.Retry = "it is being prepared", "", true
	}
	return e
}

func uniqueTags(tags []string) []string { return slices.Compact(slices.Sorted(slices.Values(tags))) }

// cooking is how a version is made of its recipe.
func (c *catalogue) cooking(v *version, who Caller, cached int) func(context.Context, func(string)) (*Template, error) {
	return func(ctx context.Context, notify func(string)) (*Template, error) {
		return c.granted(who, v, func() (*Template, error) { return c.cook(ctx, v, cached, notify) })
	}
}

// cook makes a template of a recipe with the first driver that can.
func (c *catalogue) cook(ctx context.Context, v *version, cached int, notify func(string)) (*Template, error) {
	recipe := v.record.Recipe
	list, err := c.fleet.drivers.Candidates(v.record.Asked, recipe.Spec.Isolation)
	if err != nil {
		return nil, err
	}
	recipe.Spec.ID = v.id
	ctx = c.fleet.acting(ctx, v.key.tenant, !v.record.Operator)
	var first error // what the best one lacks is the first thing to mend
	for driver := range list.All() {
		err := c.fleet.uses(driver)
		if err == nil {
			var t *Template
			if t, err = c.cookWith(ctx, driver, v, recipe, cached, notify); err == nil {
				return t, nil
			}
		}
		if class := sandbox.ClassOf(err); class != sandbox.Unavailable && class != sandbox.Unsupported {
			return nil, err
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// cookWith makes a template of a recipe, of which v is the version, with layers where the
// driver has what those need.
func (c *catalogue) cookWith(ctx context.Context, driver sandbox.Driver, v *version, recipe Recipe, cached int, notify func(string)) (*Template, error) {
	defer c.fleet.engine.making.begin(recipe.Spec.Image)()
	cache, err := c.fleet.layers.cacheFor(ctx, c.recordOf(v).who(), driver, recipe)
	if err != nil {
		return nil, err
	}
	if cache != nil {
		cache.fresh = min(cached, len(cache.keys))
		defer cache.close()
	}
	archive := func(name string) (io.ReadCloser, error) { return c.fleet.archives.open(v.key.tenant, name) }
	return c.fleet.engine.prepare(ctx, driver, recipe, cache, archive, notify)
}

// granted makes the sandbox of a version, which takes its part of the tenant's quota
// unless it has that already.
func (c *catalogue) granted(who Caller, v *version, do func() (*Template, error)) (t *Template, err error) {
	once := func() ([]*box, error) {
		t, err = do()
		return nil, err
	}
	spec := v.record.Recipe.Spec
	c.mu.Lock()
	has := v.grant != nil
	c.mu.Unlock()
	if has {
		_, err = c.fleet.rights.admit(spec, 1, once)
		return t, err
	}
	_, err = c.fleet.rights.grant(who, v.key.tenant, spec, 1, func(grants []*access.Grant) ([]*box, error) {
		boxes, err := once()
		if err == nil {
			c.mu.Lock()
			v.grant = grants[0]
			c.mu.Unlock()
		}
		return boxes, err
	})
	return t, err
}
