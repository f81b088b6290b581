package tool

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

var update = flag.Bool("update", false, "write the golden files anew")

func toolsOf(t *testing.T, p Profile) []*Tool {
	t.Helper()
	tools, err := Of(p)
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

// TestFormatsAreStable: what models are shown changes only on purpose.
func TestFormatsAreStable(t *testing.T) {
	for _, f := range Formats() {
		list, err := Project(f, toolsOf(t, Full))
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := json.Indent(&text, list, "", "  "); err != nil {
			t.Fatal(err)
		}
		text.WriteByte('\n')
		file := filepath.Join("testdata", string(f)+".json")
		if *update {
			if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, text.Bytes()) {
			t.Errorf("%s differs (-update writes it anew)", file)
		}
	}
}

var toolName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// TestRegistry: names satisfy every provider and are unique, and each tool says what it
// does in a few words.
func TestRegistry(t *testing.T) {
	seen := map[string]bool{}
	for _, one := range toolsOf(t, Full) {
		if !toolName.MatchString(one.Name) || seen[one.Name] {
			t.Errorf("%q is no name, or not unique", one.Name)
		}
		seen[one.Name] = true
		if one.Description == "" || len(one.Description) > 200 {
			t.Errorf("%s is described in %d bytes", one.Name, len(one.Description))
		}
		if !slices.Contains([]Effect{Reads, Writes, Destroys}, one.Effect) {
			t.Errorf("%s does not say what it does: %q", one.Name, one.Effect)
		}
		for name, p := range one.InputSchema().Properties {
			if p.Type == "object" || !slices.Contains([]string{"string", "integer", "number", "boolean", "array"}, p.Type) {
				t.Errorf("%s.%s is a %q, which not every provider has in strict modes", one.Name, name, p.Type)
			}
		}
		if _, err := one.OutputSchema().Resolve(nil); err != nil {
			t.Errorf("%s: %v", one.Name, err)
		}
	}
	if n := len(toolsOf(t, Compact)); n != 12 {
		t.Errorf("the compact dozen are %d", n)
	}
	if _, err := Of("some"); err == nil {
		t.Error("there is a profile that is not")
	}
}

// TestStrict: the schemas of OpenAI's strict mode name every property as required, close
// every object and say null where something may be left out; and use no other keyword.
func TestStrict(t *testing.T) {
	allowed := []string{"type", "properties", "required", "additionalProperties", "description", "enum", "items"}
	for _, one := range toolsOf(t, Full) {
		text, err := json.Marshal(strict(one.InputSchema()))
		if err != nil {
			t.Fatal(err)
		}
		var s map[string]any
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		if s["type"] != "object" || s["additionalProperties"] != false {
			t.Errorf("%s is not a closed object: %s", one.Name, text)
		}
		properties := s["properties"].(map[string]any)
		if len(s["required"].([]any)) != len(properties) {
			t.Errorf("%s does not require every property", one.Name)
		}
		for name, p := range properties {
			p := p.(map[string]any)
			for keyword := range p {
				if !slices.Contains(allowed, keyword) {
					t.Errorf("%s.%s has %s", one.Name, name, keyword)
				}
			}
			optional := !slices.Contains(one.InputSchema().Required, name)
			if _, nullable := p["type"].([]any); nullable != optional {
				t.Errorf("%s.%s is optional %v, may be null %v", one.Name, name, optional, nullable)
			}
			if words, ok := p["enum"].([]any); ok && optional != slices.Contains(words, nil) {
				t.Errorf("%s.%s is one of %v", one.Name, name, words)
			}
		}
	}
}

// TestAnthropicStrict: what is marked as strict is within half of the bounds of a request,
// closes its objects, and has no other keyword than those that such schemas may have.
func TestAnthropicStrict(t *testing.T) {
	for _, profile := range []Profile{Compact, Full} {
		text, err := Project(Anthropic, toolsOf(t, profile))
		if err != nil {
			t.Fatal(err)
		}
		var list []struct {
			Name   string
			Strict bool
			Schema struct {
				Type       string
				Properties map[string]map[string]any
				Required   []string
				Additional *bool `json:"additionalProperties"`
			} `json:"input_schema"`
		}
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		strict, optional := 0, 0
		for _, one := range list {
			if !one.Strict {
				continue
			}
			strict++
			optional += len(one.Schema.Properties) - len(one.Schema.Required)
			if one.Schema.Type != "object" || one.Schema.Additional == nil || *one.Schema.Additional {
				t.Errorf("%s is not a closed object", one.Name)
			}
			for name, p := range one.Schema.Properties {
				for keyword := range p {
					if !slices.Contains([]string{"type", "description", "enum", "items"}, keyword) {
						t.Errorf("%s.%s has %s", one.Name, name, keyword)
					}
				}
				if _, one := p["type"].(string); !one {
					t.Errorf("%s may be of several types", name)
				}
			}
		}
		if strict < 6 || strict > 10 || optional > 12 {
			t.Errorf("of %s, %d tools are strict, with %d arguments that may be left out", profile, strict, optional)
		}
	}
}

// TestGeminiSubset: Gemini has a part of OpenAPI's schemas, and refuses the rest.
func TestGeminiSubset(t *testing.T) {
	list, err := Project(Gemini, toolsOf(t, Full))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"additionalProperties", "anyOf", "$ref", `"null"`, "strict"} {
		if strings.Contains(string(list), word) {
			t.Errorf("it has %s", word)
		}
	}
	for _, one := range toolsOf(t, Full) {
		g := geminiOf(one.InputSchema())
		if g == nil {
			if len(one.InputSchema().Properties) > 0 {
				t.Errorf("%s has lost its arguments", one.Name)
			}
			continue
		}
		for name, p := range g.Properties {
			if !slices.Contains([]string{"STRING", "INTEGER", "NUMBER", "BOOLEAN", "ARRAY"}, p.Type) || p.Type == "ARRAY" && p.Items == nil {
				t.Errorf("%s.%s is a %s", one.Name, name, p.Type)
			}
		}
	}
}

// messages are one call, sandbox_create with two arguments, as each format has it: alone,
// and in the whole message of a model.
var messages = map[Format][]string{
	MCP: {`{"name":"sandbox_create","arguments":{"memory_mb":64,"env":["A=b"]}}`,
		`{"jsonrpc":"2.0","id":"c1","method":"tools/call","params":{"name":"sandbox_create","arguments":{"memory_mb":64,"env":["A=b"]}}}`},
	OpenAI: {`{"id":"c1","type":"function","function":{"name":"sandbox_create","arguments":"{\"memory_mb\":64,\"env\":[\"A=b\"],\"image\":null,\"keep\":null}"}}`,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"sandbox_create","arguments":"{\"memory_mb\":64,\"env\":[\"A=b\"],\"isolation\":null}"}}]}`,
		`{"choices":[{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"sandbox_create","arguments":"{\"memory_mb\":64,\"env\":[\"A=b\"]}"}}]}}]}`},
	OpenAIResponses: {`{"type":"function_call","id":"fc_1","call_id":"c1","name":"sandbox_create","arguments":"{\"memory_mb\":64,\"env\":[\"A=b\"],\"image\":null}"}`,
		`{"id":"r","output":[{"type":"reasoning","id":"x","summary":[]},{"type":"function_call","call_id":"c1","name":"sandbox_create","arguments":"{\"memory_mb\":64,\"env\":[\"A=b\"]}"}]}`},
	Anthropic: {`{"type":"tool_use","id":"c1","name":"sandbox_create","input":{"memory_mb":64,"env":["A=b"]}}`,
		`{"role":"assistant","content":[{"type":"text","text":"one moment"},{"type":"tool_use","id":"c1","name":"sandbox_create","input":{"memory_mb":64,"env":["A=b"]}}]}`},
	Gemini: {`{"functionCall":{"name":"sandbox_create","args":{"memory_mb":64,"env":["A=b"]}}}`,
		`{"candidates":[{"content":{"role":"model","parts":[{"text":"hm"},{"functionCall":{"id":"c1","name":"sandbox_create","args":{"memory_mb":64,"env":["A=b"]}}}]}}]}`},
}

// TestCallsRoundTrip: a call is the same in every format.
func TestCallsRoundTrip(t *testing.T) {
	create, err := named("sandbox_create")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range Formats() {
		for _, message := range messages[f] {
			calls, err := Calls(f, []byte(message))
			if err != nil || len(calls) != 1 || calls[0].Name != "sandbox_create" {
				t.Errorf("%s: %s gives %v, %v", f, message, calls, err)
				continue
			}
			var in createArgs
			if err := create.input().decode(calls[0].Arguments, &in); err != nil {
				t.Errorf("%s: %s: %v", f, message, err)
			}
			if in.MemoryMB != 64 || !slices.Equal(in.Env, []string{"A=b"}) || in.Keep || in.Image != "" {
				t.Errorf("%s: %s asks for %+v", f, message, in)
			}
		}
		if calls, err := Calls(f, []byte(`{"role":"assistant","content":"no call"}`)); err != nil || len(calls) != 0 {
			t.Errorf("%s: a message without calls has %v, %v", f, calls, err)
		}
		if _, err := Calls(f, []byte(`"what"`)); err == nil {
			t.Errorf("%s: what is no message is one", f)
		}
	}
}

// FuzzCalls: whatever a model says is read or refused.
func FuzzCalls(f *testing.F) {
	for format, list := range messages {
		for _, message := range list {
			f.Add(string(format), []byte(message))
		}
	}
	f.Fuzz(func(t *testing.T, format string, message []byte) {
		calls, err := Calls(Format(format), message)
		if err != nil {
			return
		}
		for _, c := range calls {
			one, err := named(c.Name)
			if err != nil {
				continue
			}
			var in map[string]any
			if one.input().decode(c.Arguments, &in) != nil {
				continue
			}
			for name := range in {
				if one.input().schema.Properties[name] == nil {
					t.Errorf("%s takes %q", c.Name, name)
				}
			}
		}
	})
}

// validate holds a value to a schema, as a client does.
func validate(t *testing.T, s *jsonschema.Schema, value any) {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(plain); err != nil {
		t.Errorf("%s is not what the schema says: %v", text, err)
	}
}
