package rest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// description is the OpenAPI description, read as data.
var description = sync.OnceValue(func() map[string]any {
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		panic(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		panic(err)
	}
	return doc
})

// checkAnswer holds an answer that came over the wire to its description.
func checkAnswer(t testing.TB, method, path string, res *http.Response, text []byte) {
	t.Helper()
	if strings.Contains(path, "/guest/") && res.Header.Get("Aether-Error") == "" {
		return // the guest's
	}
	s := answerSchema(method, path, res)
	if s == nil {
		return
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Errorf("%s %s: %d %s: %v", method, path, res.StatusCode, text, err)
		return
	}
	if err := conforms(value, s); err != nil {
		t.Errorf("%s %s: %d %s: %v", method, path, res.StatusCode, text, err)
	}
}

// answerSchema is nil where the answer is no JSON.
func answerSchema(method, path string, res *http.Response) map[string]any {
	if res.StatusCode >= 300 {
		return map[string]any{"$ref": "#/components/schemas/Failure"}
	}
	path, _, _ = strings.Cut(path, "?")
	for pattern := range description()["paths"].(map[string]any) {
		if !samePath(pattern, path) {
			continue
		}
		s, _ := dig(description(), "paths", pattern, strings.ToLower(method), "responses", fmt.Sprint(res.StatusCode), "content", "application/json", "schema").(map[string]any)
		return s
	}
	return nil
}

func samePath(pattern, path string) bool {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	return slices.EqualFunc(want, got, func(w, g string) bool { return w == g || strings.HasPrefix(w, "{") })
}

func dig(from any, names ...string) any {
	for _, name := range names {
		m, ok := from.(map[string]any)
		if !ok {
			return nil
		}
		from = m[name]
	}
	return from
}

// conforms checks a value against as much of JSON Schema as the description uses.
func conforms(value any, s map[string]any) error {
	if ref, ok := s["$ref"].(string); ok {
		target, ok := dig(description(), strings.Split(strings.TrimPrefix(ref, "#/"), "/")...).(map[string]any)
		if !ok {
			return fmt.Errorf("%s leads nowhere", ref)
		}
		return conforms(value, target)
	}
	if enum, ok := s["enum"].([]any); ok && !slices.Contains(enum, value) {
		return fmt.Errorf("%v is not one of %v", value, enum)
	}
	switch v := value.(type) {
	case map[string]any:
		return conformsObject(v, s)
	case []any:
		items, _ := s["items"].(map[string]any)
		for _, item := range v {
			if err := conforms(item, items); err != nil {
				return err
			}
		}
		return kind(s, "array")
	case string:
		if _, err := time.Parse(time.RFC3339, v); s["format"] == "date-time" && err != nil {
			return err
		}
		return kind(s, "string")
	case bool:
		return kind(s, "boolean")
	case float64:
		return kind(s, "integer", "number")
	}
	return fmt.Errorf("%v is nothing that is described", value)
}

func kind(s map[string]any, names ...string) error {
	if got, _ := s["type"].(string); !slices.Contains(names, got) {
		return fmt.Errorf("a %s is described as %v", names[0], s["type"])
	}
	return nil
}

func conformsObject(v, s map[string]any) error {
	properties, _ := s["properties"].(map[string]any)
	for name, value := range v {
		property, known := properties[name].(map[string]any)
		if !known {
			property, known = s["additionalProperties"].(map[string]any)
		}
		if !known && s["additionalProperties"] == false {
			return fmt.Errorf("%s is not described", name)
		}
		if known {
			if err := conforms(value, property); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, ok := v[name.(string)]; !ok {
			return fmt.Errorf("%s is missing", name)
		}
	}
	return kind(s, "object")
}
