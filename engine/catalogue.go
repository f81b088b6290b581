package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"aether/engine/access"
	"aether/engine/state"
	"aether/sandbox"
)

// templateFormat counts up with every change of templateRecord that older programs could
// not read.
const templateFormat = 1

// templateRecord is a version of a template as the engine remembers it. It is written
// when the version is ready for the first time, and stays until that is removed.
type templateRecord struct {
	TemplateInfo
	// Asked is the driver that was asked for, and Operator says that an operator did.
	Asked    string `json:"asked,omitempty"`
	Operator bool   `json:"operator,omitempty"`
	// Kept is the directory below its home that holds its memory.
	Kept string `json:"kept,omitempty"`
}

type templateKey struct{ tenant, name string }

// catalogue is the templates of tenants.
type catalogue struct {
	fleet   *fleet
	records *state.Kind[templateRecord]

	writing sync.Mutex // held by whoever changes records; taken before mu

	mu       sync.Mutex
	versions map[templateKey][]*version // oldest first
	builds   map[string]*build          // that run, by what they make
}

// version is one version of a template. Its fields are guarded by the catalogue's mu.
type version struct {
	id  string
	key templateKey

	record   templateRecord
	declared bool      // there is a record of it
	template *Template // nil unless it is ready
	pool     *Pool     // nil unless children are kept ready
	build    *build    // nil unless it is being prepared
	grant    *access.Grant
}

func openCatalogue(f *fleet) (*catalogue, error) {
	records, err := state.NewKind[templateRecord](f.dir, "templates", templateFormat, nil)
	return &catalogue{fleet: f, records: records, versions: map[templateKey][]*version{}, builds: map[string]*build{}}, err
}

func (v *version) name() string { return versionName(v.key.name, v.record.Version) }

// recordOf is what is remembered of a version. Who makes one ready goes by that: sandboxes of
// it end, and its tags change, meanwhile.
func (c *catalogue) recordOf(v *version) templateRecord {
	c.mu.Lock()
	defer c.mu.Unlock()
	return v.record
}

// who is on whose behalf children of it are kept ready.
func (r templateRecord) who() Caller {
	return Caller{Tenant: r.Tenant, Operator: r.Operator, Name: "template " + r.Name}
}

// images are what versions are made of, those that are being prepared included.
func (c *catalogue) images() (list []string) {
	for _, v := range c.each() {
		list = append(list, v.record.Recipe.Spec.Image)
	}
	return list
}

// find gives the version that is meant; its id will do too. Errors:
// Invalid; NotFound, also for what is another tenant's. c.mu is held.
func (c *catalogue) find(who Caller, text string) (*version, error) {
	ref, err := parseRef(text)
	if err != nil {
		return nil, err
	}
	list := c.versions[templateKey{who.Tenant, ref.name}]
	for _, v := range slices.Backward(list) {
		if v.meets(ref) && v.declared {
			return v, nil
		}
	}
	for _, v := range slices.Backward(list) {
		if v.meets(ref) {
			return v, nil // it is being prepared for the first time
		}
	}
	if v := c.byID(text); v != nil && sees(who, v.key.tenant) {
		return v, nil
	}
	return nil, noTemplate(text)
}

func (v *version) meets(ref templateRef) bool {
	return (ref.version == 0 || ref.version == v.record.Version) && (ref.tag == "" || slices.Contains(v.record.Tags, ref.tag))
}

func (c *catalogue) byID(id string) *version {
	for _, list := range c.versions {
		for _, v := range list {
			if v.id == id {
				return v
			}
		}
	}
	return nil
}

// latest is the version that is meant by a name alone, or nil. c.mu is held.
func (c *catalogue) latest(key templateKey) *version {
	for _, v := range slices.Backward(c.versions[key]) {
		if v.declared {
			return v
		}
	}
	return nil
}

// drop forgets a version. c.mu is held.
func (c *catalogue) drop(v *version) {
	list := slices.DeleteFunc(c.versions[v.key], func(other *version) bool { return other == v })
	if c.versions[v.key] = list; len(list) == 0 {
		delete(c.versions, v.key)
	}
}

// GetTemplate tells what is known of a template, which is asked for as NAME, NAME:TAG or
// NAME@VERSION. Errors: NotFound, also for what is another tenant's.
func (e *Engine) GetTemplate(ctx context.Context, who Caller, template string) (TemplateInfo, error) {
	if e.fleet == nil {
		return TemplateInfo{}, errNoState
	}
	c := e.fleet.catalogue
	c.mu.Lock()
	v, err := c.find(who, template)
	if err != nil {
		c.mu.Unlock()
		return TemplateInfo{}, err
	}
	info, living := c.info(v), v.template
	c.mu.Unlock()
	return measured(ctx, info, living), nil
}

// info is what is known of a version without asking its driver. c.mu is held.
func (c *catalogue) info(v *version) TemplateInfo {
	info := v.record.TemplateInfo
	info.Latest = c.latest(v.key) == v
	if v.build != nil {
		info.State, info.Step, info.Reason = TemplatePreparing, v.build.step(), ""
	}
	if t := v.template; t != nil {
		info.Frozen = t.Frozen()
	}
	if v.pool != nil {
		stats := v.pool.Stats()
		info.Pool = &stats
	}
	return info
}

// measured adds what a template uses, if its driver can tell.
func measured(ctx context.Context, info TemplateInfo, t *Template) TemplateInfo {
	if t == nil {
		return info
	}
	if stats, err := t.Stats(ctx); err == nil {
		info.Stats = &stats
	}
	return info
}

// TemplateTree lists the sandboxes of a template's fork tree, as Tree does, the template's
// own among them. Errors: NotFound.
func (e *Engine) TemplateTree(_ context.Context, who Caller, template string) ([]Node, error) {
	if e.fleet == nil {
		return nil, errNoState
	}
	c := e.fleet.catalogue
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.find(who, template)
	if err != nil {
		return nil, err
	}
	return e.tree.below(v.id), nil
}

// ListTemplates gives a page of the templates that the caller may see, by name and
// version. Errors: Invalid.
func (e *Engine) ListTemplates(ctx context.Context, who Caller, q TemplateQuery) (TemplatePage, error) {
	if e.fleet == nil {
		return TemplatePage{}, errNoState
	}
	if q.Limit < 0 {
		return TemplatePage{}, sandbox.Invalidf("limit", "%d is negative", q.Limit)
	}
	infos, living := e.fleet.catalogue.list(who, q)
	page, limit := TemplatePage{Templates: []TemplateInfo{}}, min(cmp.Or(q.Limit, maxPage), maxPage)
	for i, info := range infos {
		if len(page.Templates) == limit {
			page.Next = place(infos[i-1])
			break
		}
		page.Templates = append(page.Templates, measured(ctx, info, living[i]))
	}
	return page, nil
}

// place is where a version is in a list.
func place(i TemplateInfo) string { return fmt.Sprintf("%s/%s@%010d", i.Tenant, i.Name, i.Version) }

// list gives all that a query chooses, in order.
func (c *catalogue) list(who Caller, q TemplateQuery) (infos []TemplateInfo, living []*Template) {
	c.mu.Lock()
	defer c.mu.Unlock()
	by := map[string]*version{}
	for key, list := range c.versions {
		if !sees(who, key.tenant) || q.Tenant != "" && q.Tenant != key.tenant || q.Name != "" && q.Name != key.name {
			continue
		}
		for _, v := range list {
			if info := c.info(v); place(info) > q.After {
				infos, by[v.id] = append(infos, info), v
			}
		}
	}
	slices.SortFunc(infos, func(a, b TemplateInfo) int { return strings.Compare(place(a), place(b)) })
	for _, info := range infos {
		living = append(living, by[info.ID].template)
	}
	return infos, living
}
