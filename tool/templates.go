package tool

import (
	"context"

	"aether/engine"
	"aether/sandbox"
)

// Template is one version of a template.
type Template struct {
	Name    string   `json:"template"`
	Version int      `json:"version"`
	Tags    []string `json:"tags,omitempty"`
	Latest  bool     `json:"latest,omitempty"`
	State   string   `json:"state"`
	Reason  string   `json:"reason,omitempty"`
	Driver  string   `json:"driver,omitempty"`
	// Ahead is how many children are to be kept ready, and Ready how many are.
	Ahead int `json:"ahead,omitempty"`
	Ready int `json:"ready,omitempty"`
	Forks int `json:"forks"`
}

// Templates is a list of them, by name. Next is the after of the next page.
type Templates struct {
	Templates []Template `json:"templates"`
	Next      string     `json:"next,omitempty"`
}

func templateOf(t engine.TemplateInfo) Template {
	v := Template{Name: t.Name, Version: t.Version, Tags: t.Tags, Latest: t.Latest, State: string(t.State), Reason: t.Reason, Driver: t.Driver, Ahead: t.Ahead, Forks: t.Forks}
	if t.Pool != nil {
		v.Ready = t.Pool.Ready
	}
	return v
}

type templateListArgs struct {
	Name  string `json:"name,omitempty"`
	After string `json:"after,omitempty" jsonschema:"next of the page before"`
}

type templateArgs struct {
	of
	Name  string   `json:"name"`
	Tags  []string `json:"tags,omitempty"`
	Ahead int      `json:"ahead,omitempty" jsonschema:"children to keep ready"`
}

type templateSetArgs struct {
	Template string   `json:"template" jsonschema:"NAME, NAME:TAG or NAME@VERSION"`
	Tags     []string `json:"tags,omitempty"`
	Ahead    *int     `json:"ahead,omitempty" jsonschema:"children to keep ready"`
}

type templateID struct {
	Template string `json:"template" jsonschema:"NAME, NAME:TAG or NAME@VERSION"`
}

func templateTools() []*Tool {
	return []*Tool{
		define("template_list", Reads, "List templates: prepared sandboxes that sandbox_create forks in milliseconds.", (*Session).templates),
		define("template_create", Writes, "Make a template of a sandbox as it is now; it goes on.", (*Session).promote),
		define("template_set", Writes, "Change the tags of a template, or its pool of children kept ready.", (*Session).changeTemplate).again(),
		define("template_delete", Destroys, "Delete a template. What was made of it lives on.", (*Session).removeTemplate),
	}
}

func (s *Session) templates(ctx context.Context, in templateListArgs) (list Templates, err error) {
	page, err := s.opts.Backend.ListTemplates(ctx, engine.TemplateQuery{Name: in.Name, After: in.After, Limit: 50})
	list = Templates{[]Template{}, page.Next}
	for _, one := range page.Templates {
		list.Templates = append(list.Templates, templateOf(one))
	}
	return list, err
}

func (s *Session) promote(ctx context.Context, in templateArgs) (Template, error) {
	if _, err := s.enter(ctx, in.Sandbox, 0); err != nil {
		return Template{}, err
	}
	made, err := s.opts.Backend.Promote(ctx, in.Sandbox, engine.PromoteRequest{Name: in.Name, Tags: in.Tags, Ahead: in.Ahead})
	return templateOf(made), err
}

// noTemplate says where to look for those that there are.
func noTemplate(err error) error {
	return advise(err, []sandbox.Class{sandbox.NotFound}, "template_list", map[string]any{})
}

func (s *Session) changeTemplate(ctx context.Context, in templateSetArgs) (Template, error) {
	if in.Tags == nil && in.Ahead == nil {
		return Template{}, sandbox.Invalidf("ahead", "there is neither tags nor ahead")
	}
	now, err := s.opts.Backend.ChangeTemplate(ctx, in.Template, engine.TemplateChange{Tags: in.Tags, Ahead: in.Ahead})
	return templateOf(now), noTemplate(err)
}

func (s *Session) removeTemplate(ctx context.Context, in templateID) (Done, error) {
	if err := s.opts.Backend.RemoveTemplate(ctx, in.Template); err != nil {
		return Done{}, noTemplate(err)
	}
	return Done{"deleted"}, nil
}
