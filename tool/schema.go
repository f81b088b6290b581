package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"aether/sandbox"
)

// maxArguments bounds the arguments of a call.
const maxArguments = 8 << 20

// maxText, maxList and maxInteger bound a text, a list and a number of the arguments that say nothing else.
const (
	maxText = 4 << 10
	maxList = 256
	// maxInteger is the largest that JSON is sure to carry.
	maxInteger = 1 << 53
)

// shape is what the arguments of a tool may be.
type shape struct {
	schema   *jsonschema.Schema
	resolved map[string]*jsonschema.Resolved // of each property
	most     map[string]int                  // bytes of a text, by property
}

// shapeOf infers the schema of a struct, and what the tags of its fields say besides:
// `enum` lists the words that a text may be, `max` bounds its bytes. A bound is checked
// and not in the schema, where it would cost every reader of the list.
func shapeOf(of reflect.Type) *shape {
	s := &shape{schema: infer(of), resolved: map[string]*jsonschema.Resolved{}, most: map[string]int{}}
	for _, f := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" {
			continue
		}
		property := s.schema.Properties[name]
		for word := range strings.SplitSeq(f.Tag.Get("enum"), ",") {
			if word != "" {
				property.Enum = append(property.Enum, word)
			}
		}
		if text := f.Tag.Get("max"); text != "" {
			most, err := strconv.Atoi(text)
			if err != nil {
				panic(err) // a tag of this package
			}
			s.most[name] = most
		}
		s.resolved[name] = mustResolve(property.CloneSchemas())
	}
	return s
}

func mustResolve(s *jsonschema.Schema) *jsonschema.Resolved {
	r, err := s.Resolve(nil)
	if err != nil {
		panic(err) // a type of this package
	}
	return r
}

// infer gives the schema of a type, in which lists are lists and never null.
func infer(of reflect.Type) *jsonschema.Schema {
	s, err := jsonschema.ForType(of, &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[[]byte](): {Type: "string", Description: "base64"},
	}})
	if err != nil {
		panic(err) // a type of this package
	}
	plain(s)
	return s
}

// plain takes null off lists and what is absent when it is nothing.
func plain(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
	for _, p := range s.Properties {
		plain(p)
	}
	plain(s.Items)
	if s.AdditionalProperties != nil && s.AdditionalProperties.Not == nil {
		plain(s.AdditionalProperties)
	}
}

// answerSchema is the schema of an answer: what the tool gives, or an error.
func answerSchema(of reflect.Type) *jsonschema.Schema {
	s := infer(of)
	s.Properties["error"] = infer(reflect.TypeFor[Failure]())
	s.PropertyOrder = append(s.PropertyOrder, "error")
	required := s.Required
	s.Required = nil
	s.AnyOf = []*jsonschema.Schema{{Required: append([]string{}, required...)}, {Required: []string{"error"}}}
	if len(required) == 0 {
		s.AnyOf = nil
	}
	return s
}

// decode reads arguments into a struct. What is null is absent, as strict modes of
// providers have it. Errors: Invalid with the field at fault.
func (s *shape) decode(arguments json.RawMessage, to any) error {
	if len(arguments) > maxArguments {
		return sandbox.Invalidf("arguments", "%d bytes are more than %d", len(arguments), maxArguments)
	}
	given := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(arguments)) > 0 {
		if err := json.Unmarshal(arguments, &given); err != nil {
			return sandbox.Invalidf("arguments", "they are not an object of JSON: %.200s", err)
		}
	}
	for name, value := range given {
		if s.resolved[name] == nil {
			return &sandbox.Error{Class: sandbox.Invalid, Field: clip(name, 80), Reason: "there is no such argument", Remedy: "known: " + strings.Join(s.schema.PropertyOrder, ", ")}
		}
		if string(value) == "null" {
			delete(given, name)
		}
	}
	for _, name := range s.schema.PropertyOrder {
		value, ok := given[name]
		if !ok && slices.Contains(s.schema.Required, name) {
			return sandbox.Invalidf(name, "it is missing")
		}
		if ok {
			if err := s.check(name, value); err != nil {
				return err
			}
		}
	}
	whole, err := json.Marshal(given)
	if err == nil {
		err = json.Unmarshal(whole, to)
	}
	if err != nil {
		return sandbox.Invalidf("arguments", "%.200s", err)
	}
	return nil
}

func (s *shape) check(name string, raw json.RawMessage) error {
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return sandbox.Invalidf(name, "%.200s", err)
	}
	if err := s.resolved[name].Validate(value); err != nil {
		return sandbox.Invalidf(name, "it must be %s", wanted(s.schema.Properties[name]))
	}
	switch v := value.(type) {
	case float64:
		if s.schema.Properties[name].Type == "integer" && math.Abs(v) > maxInteger {
			return sandbox.Invalidf(name, "%g is out of range", v)
		}
	case string:
		most := maxText
		if s.most[name] > 0 {
			most = s.most[name]
		}
		if len(v) > most {
			return sandbox.Invalidf(name, "%d bytes are more than %d", len(v), most)
		}
	case []any:
		if len(v) > maxList {
			return sandbox.Invalidf(name, "%d entries are more than %d", len(v), maxList)
		}
		for _, one := range v {
			if text, ok := one.(string); ok && len(text) > maxText {
				return sandbox.Invalidf(name, "an entry of %d bytes is more than %d", len(text), maxText)
			}
		}
	}
	return nil
}

// wanted says what a schema asks for, in words.
func wanted(s *jsonschema.Schema) string {
	switch {
	case len(s.Enum) > 0:
		return "one of " + strings.Trim(fmt.Sprint(s.Enum), "[]")
	case s.Type == "array" && s.Items != nil:
		return "a list of " + s.Items.Type + "s"
	case s.Type == "integer":
		return "an integer"
	case s.Minimum != nil:
		return fmt.Sprintf("a %s of at least %v", s.Type, *s.Minimum)
	}
	return "a " + s.Type
}

// clip cuts a text that somebody else chose.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
