package engine

import (
	"reflect"
	"slices"
	"testing"

	"aether/sandbox"
)

// TestEveryFieldIsKeyed: every field of a Spec is part of the key of a layer unless it is
// said, with a reason, that it does not matter; what is said so exists.
func TestEveryFieldIsKeyed(t *testing.T) {
	left := map[string]bool{}
	for name, why := range unkeyed {
		left[name] = true
		if why == "" {
			t.Errorf("nobody says why %s does not matter", name)
		}
	}
	var spec sandbox.Spec
	eachField(t, reflect.ValueOf(&spec).Elem(), "", func(name string) {
		_, without := unkeyed[name]
		delete(left, name)
		if same := keyOf(spec) == keyOf(sandbox.Spec{}); same != without {
			t.Errorf("that %s does not change the key is %v", name, same)
		}
	})
	var step Step
	stepKey := func(s Step) string { return layerKeys("", "", "", sandbox.Spec{}, nil, s)[0] }
	eachField(t, reflect.ValueOf(&step).Elem(), "", func(name string) {
		_, without := unkeyed[name]
		delete(left, name)
		if same := stepKey(step) == stepKey(Step{}); same != without {
			t.Errorf("that %s does not change the key is %v", name, same)
		}
	})
	for name := range left {
		t.Errorf("%s does not matter, and there is no such field", name)
	}
}

func keyOf(spec sandbox.Spec) string {
	return layerKeys("tenant", "driver", "image", spec, [][]string{{"true"}})[0]
}

// eachField sets one field after another, at every depth, to something else than zero.
func eachField(t *testing.T, v reflect.Value, name string, visit func(name string)) {
	t.Helper()
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			eachField(t, v.Field(i), v.Type().Name()+"."+v.Type().Field(i).Name, visit)
		}
		return
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		if v.Type().Elem().Kind() == reflect.Struct {
			eachField(t, v.Index(0), name, visit)
		}
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"name": "value"}))
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Float64:
		v.SetFloat(0.5)
	default:
		t.Fatalf("%s is of a kind that this test does not know", name)
	}
	visit(name)
	v.SetZero()
}

// TestKeysDiffer: no two recipes that may leave other files have a key in common, and no
// key is that of another command.
func TestKeysDiffer(t *testing.T) {
	seen := map[string]string{}
	note := func(what string, keys ...string) {
		t.Helper()
		for _, key := range keys {
			if other := seen[key]; other != "" {
				t.Errorf("%s has a key of %s", what, other)
			}
			seen[key] = what
		}
	}
	env := func(list ...string) (spec sandbox.Spec) {
		spec.Command.Env = map[string]string{}
		for i := 0; i < len(list); i += 2 {
			spec.Command.Env[list[i]] = list[i+1]
		}
		return spec
	}
	one := [][]string{{"a", "b"}}
	note("plain", layerKeys("t", "d", "i", sandbox.Spec{}, [][]string{{"a", "b"}, {"a", "b"}})...)
	note("tenant", layerKeys("u", "d", "i", sandbox.Spec{}, one)...)
	note("driver", layerKeys("t", "e", "i", sandbox.Spec{}, one)...)
	note("image", layerKeys("t", "d", "j", sandbox.Spec{}, one)...)
	note("shifted", layerKeys("td", "", "i", sandbox.Spec{}, one)...)
	note("joined", layerKeys("t", "d", "i", sandbox.Spec{}, [][]string{{"a b"}})...)
	note("split", layerKeys("t", "d", "i", sandbox.Spec{}, [][]string{{"a"}, {"b"}})...)
	note("bytes", layerKeys("t", "d", "i", sandbox.Spec{}, [][]string{{"a", "\xff"}})...)
	note("other bytes", layerKeys("t", "d", "i", sandbox.Spec{}, [][]string{{"a", "\xfe"}})...)
	note("variable", layerKeys("t", "d", "i", env("a", "b"), one)...)
	note("two", layerKeys("t", "d", "i", env("a", "b", "c", "d"), one)...)
	note("value", layerKeys("t", "d", "i", env("a", "bcd"), one)...)
	own := Step{Command: []string{"a"}, User: "u", Dir: "/", Stated: true}
	first, second := layerKeys("t", "d", "i", env("a", "b"), nil, own, own), layerKeys("t", "d", "i", env("a", "c"), nil, own, own)
	note("stated", first...)
	if !slices.Equal(first, second) {
		t.Error("defaults are part of the keys of steps that state their own")
	}
	note("defaults", layerKeys("t", "d", "i", env("a", "b"), nil, own, Step{Command: []string{"a"}})...)
	note("other defaults", layerKeys("t", "d", "i", env("a", "c"), nil, own, Step{Command: []string{"a"}})...)
	for range 20 { // in whatever order a map is walked
		if keys := layerKeys("t", "d", "i", env("c", "d", "a", "b"), one); seen[keys[0]] != "two" {
			t.Error("the same variables give another key")
		}
	}
}
