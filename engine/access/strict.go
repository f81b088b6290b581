package access

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"aether/sandbox"
)

// decodeStrict reads JSON into a struct as encoding/json does, but takes no field
// that is unknown, in other letters or there twice, and no null: a rule that is
// mistyped must not be one that is missing. Errors: Invalid with the field's path.
func decodeStrict(text []byte, into any) error {
	if !json.Valid(text) {
		var ignored any
		return &sandbox.Error{Class: sandbox.Invalid, Reason: "it is not JSON", Err: place(text, json.Unmarshal(text, &ignored))}
	}
	return decode("", text, reflect.ValueOf(into).Elem())
}

// place says in which line the syntax is wrong.
func place(text []byte, err error) error {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return err
	}
	line := 1 + bytes.Count(text[:min(int(syntax.Offset), len(text))], []byte("\n"))
	return fmt.Errorf("line %d: %w", line, err)
}

// decode walks valid JSON and a type together. The type bounds its depth.
func decode(path string, raw json.RawMessage, v reflect.Value) error {
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return sandbox.Invalidf(path, "null is no value; leave the field out")
	}
	if _, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return decodeLeaf(path, raw, v)
	}
	switch v.Kind() {
	case reflect.Struct:
		return decodeStruct(path, raw, v)
	case reflect.Map:
		return decodeMap(path, raw, v)
	case reflect.Slice:
		return decodeList(path, raw, v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return decode(path, raw, v.Elem())
	}
	return decodeLeaf(path, raw, v)
}

func decodeLeaf(path string, raw json.RawMessage, v reflect.Value) error {
	err := json.Unmarshal(raw, v.Addr().Interface())
	var wrong *json.UnmarshalTypeError
	var ours *sandbox.Error
	switch {
	case errors.As(err, &wrong):
		return sandbox.Invalidf(path, "%s is not a %s", wrong.Value, wrong.Type)
	case errors.As(err, &ours):
		return sandbox.Invalidf(path, "%s", ours.Reason)
	case err != nil:
		return &sandbox.Error{Class: sandbox.Invalid, Field: path, Err: err}
	}
	return nil
}

func decodeStruct(path string, raw json.RawMessage, v reflect.Value) error {
	names := fieldNames(v.Type())
	return eachMember(path, raw, func(name, path string, value json.RawMessage) error {
		i := slices.Index(names, name)
		if i < 0 {
			return sandbox.Invalidf(path, "there is no such field; there are %s", strings.Join(names, ", "))
		}
		return decode(path, value, v.Field(i))
	})
}

// fieldNames are the names in JSON, in the order of the fields. All are exported and
// have one: a test of the configuration's types holds that.
func fieldNames(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

func decodeMap(path string, raw json.RawMessage, v reflect.Value) error {
	v.Set(reflect.MakeMap(v.Type()))
	return eachMember(path, raw, func(name, path string, value json.RawMessage) error {
		element := reflect.New(v.Type().Elem()).Elem()
		if err := decode(path, value, element); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(name), element)
		return nil
	})
}

func decodeList(path string, raw json.RawMessage, v reflect.Value) error {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return sandbox.Invalidf(path, "it is not a list")
	}
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, item := range items {
		if err := decode(fmt.Sprintf("%s[%d]", path, i), item, v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

// eachMember visits what an object has, each name once.
func eachMember(path string, raw json.RawMessage, visit func(name, path string, value json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return sandbox.Invalidf(path, "it is not an object")
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		var value json.RawMessage
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil {
			return &sandbox.Error{Class: sandbox.Invalid, Field: path, Err: err}
		}
		name, _ := token.(string)
		at := strings.TrimPrefix(fmt.Sprintf("%s.%.80s", path, name), ".")
		if seen[name] {
			return sandbox.Invalidf(at, "it is there twice")
		}
		seen[name] = true
		if err := visit(name, at, value); err != nil {
			return err
		}
	}
	return nil
}
