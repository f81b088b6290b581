package engine

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"

	"aether/engine/access"
	"aether/sandbox"
)

// createForked makes a sandbox by a fork of a template, or takes one that is kept ready. If
// the template is replaced meanwhile, it is one of the next version.
func (f *fleet) createForked(ctx context.Context, who Caller, req CreateRequest) (*box, error) {
	if len(req.Volumes) > 0 {
		return nil, sandbox.Invalidf("volumes", "a sandbox of a template has none: its processes run already")
	}
	for {
		v, err := f.catalogue.ready(ctx, who, req.Template)
		if err != nil {
			return nil, err
		}
		b, err := f.createOf(ctx, who, v, req)
		if sandbox.ClassOf(err) != sandbox.NotFound || f.catalogue.has(v) {
			return b, err
		}
	}
}

func (c *catalogue) has(v *version) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.versions[v.key], v)
}

func (f *fleet) createOf(ctx context.Context, who Caller, v *version, req CreateRequest) (*box, error) {
	f.catalogue.mu.Lock()
	t, pool, r := v.template, v.pool, v.record
	f.catalogue.mu.Unlock()
	if t == nil {
		return nil, &sandbox.Error{Class: sandbox.NotFound, Op: "template " + v.name(), Reason: "its sandbox has just ended", Retry: true}
	}
	if req.Driver != "" && req.Driver != r.Driver {
		return nil, sandbox.Invalidf("driver", "the template %s is of %s", req.Template, r.Driver)
	}
	spec, err := f.rights.permit(who, overlaid(r.Recipe.Spec, req.Spec))
	if err != nil {
		return nil, err
	}
	if spec.Isolation > r.Boundary {
		return nil, sandbox.Invalidf("spec.isolation", "the template %s has a %v boundary", req.Template, r.Boundary)
	}
	child, err := f.catalogue.child(ctx, who, v, t, pool, spec)
	if err != nil {
		return nil, err
	}
	return f.adoptChild(ctx, v, t, child, spec, req)
}

// ready gives the version that is meant, once it is ready. Errors: Unavailable if there is
// only one that is being prepared for the first time.
func (c *catalogue) ready(ctx context.Context, who Caller, template string) (*version, error) {
	c.mu.Lock()
	v, err := c.find(who, template)
	first := err == nil && !v.declared
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if first {
		return nil, &sandbox.Error{Class: sandbox.Unavailable, Op: "template " + clip(template, 80), Reason: "it is not ready yet", Retry: true}
	}
	return v, c.await(ctx, v)
}

// overlaid is a template's Spec with what a sandbox that is made of it states itself.
func overlaid(base, own sandbox.Spec) sandbox.Spec {
	limits := &base.Limits
	set(&limits.MemoryBytes, own.Limits.MemoryBytes)
	set(&limits.CPUs, own.Limits.CPUs)
	set(&limits.Processes, own.Limits.Processes)
	set(&limits.DiskBytes, own.Limits.DiskBytes)
	set(&limits.DiskReadRate, own.Limits.DiskReadRate)
	set(&limits.DiskWriteRate, own.Limits.DiskWriteRate)
	set(&base.Isolation, own.Isolation)
	set(&base.Timeouts.Lifetime, own.Timeouts.Lifetime)
	if own.Network.Mode != sandbox.NoNetwork {
		base.Network = own.Network
	}
	if own.Metadata != nil {
		base.Metadata = own.Metadata
	}
	return base
}

func set[V comparable](to *V, own V) {
	var none V
	if own != none {
		*to = own
	}
}

// fixed refuses what a Spec says that its template has said already. Errors: Invalid.
func fixed(own sandbox.Spec) error {
	for field, given := range map[string]bool{
		"image": own.Image != "", "mounts": len(own.Mounts) > 0, "limits.disk_backed": own.Limits.DiskBacked,
		"command": len(own.Command.Env) > 0 || own.Command.WorkDir != "" || own.Command.User != "",
	} {
		if given {
			return sandbox.Invalidf("spec."+field, "a fork has what its template has")
		}
	}
	return nil
}

// child forks a version, or claims one of the children that are kept ready, if one of
// those will do.
func (c *catalogue) child(ctx context.Context, who Caller, v *version, t *Template, pool *Pool, spec sandbox.Spec) (*Child, error) {
	own := childSpec(spec, "")
	if pool != nil && reflect.DeepEqual(own, childSpec(v.record.Recipe.Spec, "")) {
		child, err := pool.Claim(ctx, v.key.tenant)
		if sandbox.ClassOf(err) != sandbox.Conflict {
			return child, err
		}
		// The pool was closed meanwhile.
	}
	children, err := c.fork(ctx, who, v, t, []sandbox.Spec{own})
	if err != nil {
		return nil, err
	}
	return children[0], nil
}

// fork makes children that take their part of the tenant's quota. Each has an id of the
// engine's, which is that of the sandbox that it becomes.
func (c *catalogue) fork(ctx context.Context, who Caller, v *version, t *Template, specs []sandbox.Spec) (children []*Child, err error) {
	takes := overlaid(t.recipe.Spec, specs[0])
	for i := range specs {
		specs[i].ID = newID()
	}
	_, err = c.fleet.rights.grant(who, v.key.tenant, takes, len(specs), func(grants []*access.Grant) (_ []*box, err error) {
		children, err = t.Fork(c.fleet.revealing(ctx, v.key.tenant), specs...)
		for i, child := range children {
			child.take(grants[i])
		}
		return nil, err
	})
	return children, err
}

// adoptChild begins to hold a child as a sandbox of its own.
func (f *fleet) adoptChild(ctx context.Context, v *version, t *Template, child *Child, spec sandbox.Spec, req CreateRequest) (*box, error) {
	r := f.newRecord(child.ID(), v.key.tenant, terms{req.Metadata, req.Timeout, req.Then, ""})
	r.Driver, r.Why, r.Spec, r.Keep, r.AutoResume = t.Driver().Name, "its template is there", spec, req.Keep, req.AutoResume
	r.Asked, r.Restored = !v.record.Operator, v.record.Kept != ""
	resident := t.resident
	r.Template, r.Parent, r.Resident, r.Took = v.name(), v.id, &resident, child.Took()
	instance, grant := child.hand()
	if err := f.refreshSecrets(ctx, v.key.tenant, instance, spec.Network); err != nil {
		grant.Give()
		return nil, errors.Join(err, child.Destroy(ctx))
	}
	boxes, err := f.adopt(ctx, t.driver, []record{r}, []sandbox.Instance{instance}, []*access.Grant{grant})
	if err != nil {
		grant.Give()
		return nil, errors.Join(err, child.Destroy(ctx)) // and so in the tree, where nobody else notes its end
	}
	return boxes[0], nil
}

// count notes that so many sandboxes more were made of a template, and so many more live.
func (c *catalogue) count(s Sandbox, forks, living int) {
	name, _, _ := strings.Cut(s.Template, "@")
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.versions[templateKey{s.Tenant, name}] {
		if v.name() == s.Template {
			v.record.Forks, v.record.Living = v.record.Forks+forks, v.record.Living+living
		}
	}
}
