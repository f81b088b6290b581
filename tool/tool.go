package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"aether/sandbox"
)

// Effect is what a tool does to what it is called for.
type Effect string

const (
	Reads    Effect = "reads"
	Writes   Effect = "writes"
	Destroys Effect = "destroys"
)

// Tool is one thing that an agent can do.
type Tool struct {
	// Name satisfies every provider: lower-case letters, digits and underscores.
	Name        string
	Description string
	Effect      Effect
	// Again says that the same call once more changes nothing more.
	Again bool

	compact bool
	in, out reflect.Type
	call    func(context.Context, *Session, json.RawMessage) (any, error)
	input   func() *shape
	output  func() *jsonschema.Schema
}

// define makes a tool of a function. Schemas are made when they are first asked for: most
// programs that link this package ask for none.
func define[In, Out any](name string, effect Effect, description string, do func(*Session, context.Context, In) (Out, error)) *Tool {
	t := &Tool{Name: name, Description: description, Effect: effect, in: reflect.TypeFor[In](), out: reflect.TypeFor[Out]()}
	t.input = sync.OnceValue(func() *shape { return shapeOf(t.in) })
	t.output = sync.OnceValue(func() *jsonschema.Schema { return answerSchema(t.out) })
	t.call = func(ctx context.Context, s *Session, arguments json.RawMessage) (any, error) {
		var in In
		if err := t.input().decode(arguments, &in); err != nil {
			return nil, err
		}
		return do(s, ctx, in)
	}
	return t
}

// inCompact has a tool be one of the compact dozen.
func (t *Tool) inCompact() *Tool { t.compact = true; return t }

// again says that a tool may be called twice for once.
func (t *Tool) again() *Tool { t.Again = true; return t }

// InputSchema is the JSON schema of the arguments, which the caller may change.
func (t *Tool) InputSchema() *jsonschema.Schema { return t.input().schema.CloneSchemas() }

// OutputSchema is that of every answer, failures included, which the caller may change.
func (t *Tool) OutputSchema() *jsonschema.Schema { return t.output().CloneSchemas() }

// Profile names a choice of tools.
type Profile string

const (
	// Compact is the dozen that an agent needs to work in sandboxes and branch them.
	Compact Profile = "compact"
	// Full is all tools.
	Full Profile = "full"
)

// Profiles lists them.
func Profiles() []Profile { return []Profile{Compact, Full} }

// all is the registry, in the order in which agents are shown it.
var all = sync.OnceValue(func() []*Tool {
	return slices.Concat(sandboxTools(), commandTools(), codeTools(), fileTools(), transferTools(), snapshotTools(), templateTools(), networkTools(), systemTools())
})

// Of lists the tools of a profile. Errors: Invalid for one that there is not.
func Of(p Profile) ([]*Tool, error) {
	switch p {
	case Full:
		return slices.Clone(all()), nil
	case Compact:
		return slices.DeleteFunc(slices.Clone(all()), func(t *Tool) bool { return !t.compact }), nil
	}
	return nil, sandbox.Invalidf("profile", "%.40q is not one of %s, %s", string(p), Compact, Full)
}

// named finds a tool.
func named(name string) (*Tool, error) {
	for _, t := range all() {
		if t.Name == name {
			return t, nil
		}
	}
	return nil, &sandbox.Error{Class: sandbox.NotFound, Field: "name", Reason: fmt.Sprintf("there is no tool %.80q", name), Remedy: "call one of the list"}
}
