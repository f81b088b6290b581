package rest

import (
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"aether/engine"
	"aether/sandbox"
)

// api is the part of the description that is held to the code.
type api struct {
	Paths      map[string]map[string]json.RawMessage `json:"paths"`
	Components struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	OperationID string             `json:"operationId"`
	Security    *[]any             `json:"security"`
	RequestBody content            `json:"requestBody"`
	Responses   map[string]content `json:"responses"`
}

type content struct {
	Content map[string]struct {
		Schema schema `json:"schema"`
	} `json:"content"`
}

type schema struct {
	Ref                  string            `json:"$ref"`
	Type                 string            `json:"type"`
	Format               string            `json:"format"`
	Enum                 []string          `json:"enum"`
	Required             []string          `json:"required"`
	Properties           map[string]schema `json:"properties"`
	AdditionalProperties json.RawMessage   `json:"additionalProperties"`
	Items                *schema           `json:"items"`
}

func described(t *testing.T) api {
	t.Helper()
	var a api
	if err := json.Unmarshal(description, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestDescribesEveryRoute: the paths, methods, names, statuses and bodies of the
// description are those of the routes, all of them and no others.
func TestDescribesEveryRoute(t *testing.T) {
	undescribed := map[string]bool{}
	a := described(t)
	for path, item := range a.Paths {
		for method := range item {
			if method != "parameters" {
				undescribed[strings.ToUpper(method)+" "+path] = true
			}
		}
	}
	for _, rt := range routes {
		path := strings.ReplaceAll(rt.path, "...}", "}")
		delete(undescribed, rt.method+" "+path)
		raw, ok := a.Paths[path][strings.ToLower(rt.method)]
		if !ok {
			t.Errorf("%s %s is not described", rt.method, path)
			continue
		}
		var op operation
		if err := json.Unmarshal(raw, &op); err != nil {
			t.Fatal(err)
		}
		checkOperation(t, rt, op)
	}
	for name := range undescribed {
		t.Errorf("%s is described, and no route", name)
	}
}

func checkOperation(t *testing.T, rt route, op operation) {
	t.Helper()
	if op.OperationID != rt.name && op.OperationID != rt.name+"."+strings.ToLower(rt.method) {
		t.Errorf("%s %s is called %s, described as %s", rt.method, rt.path, rt.name, op.OperationID)
	}
	if open := op.Security != nil && len(*op.Security) == 0; open != (rt.access == anyone) {
		t.Errorf("%s: described as open is %v", rt.name, open)
	}
	if rt.stream != nil {
		return // what they carry has no type of ours
	}
	if got, want := bodyName(op.RequestBody), typeName(rt.takes); got != want {
		t.Errorf("%s takes %q, described as %q", rt.name, want, got)
	}
	status := map[int]string{200: "200", 201: "201", 204: "204"}[rt.status]
	answer, ok := op.Responses[status]
	if !ok || len(op.Responses) != 2 {
		t.Errorf("%s answers %d, described as %v", rt.name, rt.status, slices.Collect(maps.Keys(op.Responses)))
	}
	if got, want := bodyName(answer), typeName(rt.gives); got != want {
		t.Errorf("%s gives %q, described as %q", rt.name, want, got)
	}
}

func bodyName(c content) string {
	return strings.TrimPrefix(c.Content["application/json"].Schema.Ref, "#/components/schemas/")
}

func typeName(value any) string {
	if value == nil {
		return ""
	}
	return reflect.TypeOf(value).Name()
}

// incoming are the types that callers fill in, who may leave anything out.
var incoming = []string{"CreateRequest", "ForkRequest", "SnapshotRequest", "RollbackRequest", "MarkRequest", "PauseRequest", "ResumeRequest", "Change", "VolumeRequest", "SecretRequest",
	"PruneRequest", "KeyRequest", "TemplateRequest", "PromoteRequest", "TemplateChange"}

// TestDescribesEveryBody: the schemas are the types, field by field, and there is no
// schema without a type.
func TestDescribesEveryBody(t *testing.T) {
	a := described(t)
	seen := map[string]bool{"State": true, "TemplateState": true, "Then": true, "Boundary": true, "Fidelity": true, "Metadata": true}
	walk := &walker{t: t, schemas: a.Components.Schemas, seen: seen}
	for _, value := range []any{Failure{}, engine.Event{}} {
		walk.named(reflect.TypeOf(value))
	}
	for _, rt := range routes {
		for _, value := range []any{rt.takes, rt.gives} {
			if value != nil {
				walk.named(reflect.TypeOf(value))
			}
		}
	}
	for name := range a.Components.Schemas {
		if !seen[name] {
			t.Errorf("%s is described, and no type", name)
		}
	}
}

type walker struct {
	t       *testing.T
	schemas map[string]schema
	seen    map[string]bool
}

// named checks a struct and everything in it.
func (w *walker) named(of reflect.Type) {
	name := of.Name()
	if w.seen[name] {
		return
	}
	w.seen[name] = true
	s, ok := w.schemas[name]
	if !ok {
		w.t.Errorf("%s is not described", name)
		return
	}
	if string(s.AdditionalProperties) != "false" || s.Type != "object" {
		w.t.Errorf("%s is not described as closed", name)
	}
	var required, all []string
	for _, f := range fields(of) {
		all = append(all, f.name)
		if !f.optional {
			required = append(required, f.name)
		}
		property, ok := s.Properties[f.name]
		if !ok {
			w.t.Errorf("%s.%s is not described", name, f.name)
			continue
		}
		w.value(name+"."+f.name, f.of, property)
	}
	for property := range s.Properties {
		if !slices.Contains(all, property) {
			w.t.Errorf("%s.%s is described, and no field", name, property)
		}
	}
	slices.Sort(required)
	if got := slices.Sorted(slices.Values(s.Required)); !slices.Equal(got, required) && !slices.Contains(incoming, name) {
		w.t.Errorf("%s always has %v, described as %v", name, required, got)
	}
}

type field struct {
	name     string
	of       reflect.Type
	optional bool
}

// fields are those that JSON has of a struct, embedded ones among the others.
func fields(of reflect.Type) (list []field) {
	for f := range reflectFields(of) {
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			list = append(list, fields(f.Type)...)
		case name != "-":
			list = append(list, field{name, f.Type, strings.Contains(opts, "omit")})
		}
	}
	return list
}

func reflectFields(of reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range of.NumField() {
			if !yield(of.Field(i)) {
				return
			}
		}
	}
}

// words are the texts that have a schema of their own, with what they may say.
var words = map[reflect.Type]string{
	reflect.TypeFor[engine.State](): "State", reflect.TypeFor[engine.TemplateState](): "TemplateState", reflect.TypeFor[engine.Then](): "Then",
	reflect.TypeFor[sandbox.Boundary](): "Boundary", reflect.TypeFor[sandbox.Fidelity](): "Fidelity",
}

func (w *walker) value(at string, of reflect.Type, s schema) {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	want := jsonType(of)
	ref := strings.TrimPrefix(s.Ref, "#/components/schemas/")
	switch {
	case words[of] != "":
		if ref != words[of] {
			w.t.Errorf("%s is a %s, described as %q", at, words[of], s.Ref)
		}
	case of.Kind() == reflect.Struct && want == "object":
		if ref != of.Name() {
			w.t.Errorf("%s is a %s, described as %q", at, of.Name(), s.Ref)
		}
		w.named(of)
	case ref != "":
		if got := w.schemas[ref].Type; got != want {
			w.t.Errorf("%s is a %s, described as a %s", at, want, got)
		}
	case s.Type != want:
		w.t.Errorf("%s is a %s, described as a %s", at, want, s.Type)
	case want == "array":
		w.value(at+"[]", of.Elem(), *s.Items)
	}
}

// written is the kind of JSON that a type makes of itself, or empty.
func written(of reflect.Type) string {
	_, ours := reflect.Zero(of).Interface().(json.Marshaler)
	_, text := reflect.Zero(of).Interface().(encoding.TextMarshaler)
	if !ours && !text {
		return ""
	}
	data, err := json.Marshal(reflect.Zero(of).Interface())
	if err == nil && strings.HasPrefix(string(data), `"`) {
		return "string"
	}
	return "number"
}

func jsonType(of reflect.Type) string {
	switch {
	case written(of) != "":
		return written(of)
	case of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Uint8:
		return "string"
	case of.Kind() == reflect.Slice || of.Kind() == reflect.Array:
		return "array"
	case of.Kind() == reflect.Map || of.Kind() == reflect.Struct:
		return "object"
	case of.Kind() == reflect.String:
		return "string"
	case of.Kind() == reflect.Bool:
		return "boolean"
	case of.Kind() == reflect.Float64:
		return "number"
	}
	return "integer"
}
