package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"aether/sandbox"
)

// layerFormat is what every key begins with. It counts up when a recipe must not find
// what was kept of it before.
const layerFormat = "aether layer 1"

// unkeyed are the fields that cannot change what a command leaves in files, with the
// reason. Every other field of a Spec is part of the key, also one that is added to it.
var unkeyed = map[string]string{
	"Spec.ID":              "it names one sandbox, and no two have the same",
	"Spec.Isolation":       "it chooses the driver, which is in the key",
	"Spec.Metadata":        "nobody interprets it",
	"Timeouts.Lifetime":    "a template has none",
	"Limits.DiskReadRate":  "it changes how long a command takes",
	"Limits.DiskWriteRate": "it changes how long a command takes",
	"Step.Name":            "it is how a step is told of",
}

// layerKeys names the files of a sandbox after each command of a recipe by all that they
// come of: whose they are, the driver, the image, the Spec and the commands so far. Of
// defaults that no command has it counts whether there are some: those that a layer was made
// with are replaced by them, and stay where there are none.
func layerKeys(tenant, driver, image string, spec sandbox.Spec, run [][]string, steps ...Step) []string {
	if (Recipe{Run: run, Steps: steps}).stated() {
		spec.Command = sandbox.CommandDefaults{User: present(spec.Command.User), WorkDir: present(spec.Command.WorkDir)}
	}
	sum := sha256.New()
	for _, part := range []string{layerFormat, tenant, driver, image} {
		writeText(sum, part)
	}
	writeValue(sum, reflect.ValueOf(spec))
	keys := make([]string, 0, len(run)+len(steps))
	for _, command := range run {
		writeValue(sum, reflect.ValueOf(command))
		keys = append(keys, hex.EncodeToString(sum.Sum(nil)))
	}
	for _, step := range steps {
		writeText(sum, "step")
		writeValue(sum, reflect.ValueOf(step))
		keys = append(keys, hex.EncodeToString(sum.Sum(nil)))
	}
	return keys
}

func present(text string) string {
	if text == "" {
		return ""
	}
	return "stated"
}

// writeText writes a text behind its length, so that no two lists of texts are written
// alike. JSON would have bytes that are no letters be the same.
func writeText(w io.Writer, text string) { fmt.Fprintf(w, "%d:%s", len(text), text) } // a hash takes everything

// writeValue writes a value such that no other is written alike.
func writeValue(w io.Writer, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		writeStruct(w, v)
	case reflect.Map:
		names := v.MapKeys()
		slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		writeText(w, fmt.Sprint(len(names)))
		for _, name := range names {
			writeText(w, name.String())
			writeValue(w, v.MapIndex(name))
		}
	case reflect.Slice:
		writeText(w, fmt.Sprint(v.Len()))
		for i := range v.Len() {
			writeValue(w, v.Index(i))
		}
	case reflect.String:
		writeText(w, v.String())
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
		writeText(w, fmt.Sprint(v.Interface()))
	default:
		panic("engine: nobody has said how a " + v.Type().String() + " is part of a key")
	}
}

// writeStruct writes the fields that are set. One that is added to the type changes no
// key of those who do not set it.
func writeStruct(w io.Writer, v reflect.Value) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if _, without := unkeyed[v.Type().Name()+"."+field.Name]; without || v.Field(i).IsZero() {
			continue
		}
		var value bytes.Buffer
		if writeValue(&value, v.Field(i)); value.String() != noFields {
			writeText(w, field.Name)
			writeText(w, value.String())
		}
	}
	writeText(w, "")
}

// noFields is a struct of which nothing is set that matters: no field has an empty name.
const noFields = "0:"
