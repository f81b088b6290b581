package tool

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"aether/sandbox"
)

// Format is how somebody wants to be told of tools, and tells of calls.
type Format string

const (
	// MCP is the Model Context Protocol's.
	MCP Format = "mcp"
	// OpenAI is that of chat completions, and OpenAIResponses that of responses, both with
	// strict schemas.
	OpenAI          Format = "openai"
	OpenAIResponses Format = "openai-responses"
	// Anthropic marks as strict what fits in half of what a request may have of that.
	Anthropic Format = "anthropic"
	Gemini    Format = "gemini"
)

// Formats lists them.
func Formats() []Format { return []Format{MCP, OpenAI, OpenAIResponses, Anthropic, Gemini} }

// ParseFormat knows a format by its name. Errors: Invalid.
func ParseFormat(name string) (Format, error) {
	if f := Format(name); slices.Contains(Formats(), f) {
		return f, nil
	}
	var known []string
	for _, f := range Formats() {
		known = append(known, string(f))
	}
	return "", sandbox.Invalidf("format", "%.40q is not one of %s", name, strings.Join(known, ", "))
}

// Project tells of tools in a format: the list that a request to a model has, or the
// answer of tools/list. Errors: Invalid for the format.
func Project(f Format, tools []*Tool) (json.RawMessage, error) {
	if _, err := ParseFormat(string(f)); err != nil {
		return nil, err
	}
	list := []any{}
	for _, t := range tools {
		list = append(list, projections[f](t))
	}
	if f == Anthropic {
		markStrict(list)
	}
	switch f {
	case MCP:
		return json.Marshal(map[string]any{"tools": list})
	case Gemini:
		return json.Marshal([]any{map[string]any{"functionDeclarations": list}})
	}
	return json.Marshal(list)
}

var projections = map[Format]func(*Tool) any{
	MCP: func(t *Tool) any {
		return mcpTool{t.Name, t.Description, t.InputSchema(), t.OutputSchema(), t.Hints()}
	},
	OpenAI: func(t *Tool) any {
		return openAITool{"function", openAIFunction{Name: t.Name, Description: t.Description, Parameters: strict(t.InputSchema()), Strict: true}}
	},
	OpenAIResponses: func(t *Tool) any {
		return openAIFunction{"function", t.Name, t.Description, strict(t.InputSchema()), true}
	},
	Anthropic: func(t *Tool) any {
		return &anthropicTool{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema()}
	},
	Gemini: func(t *Tool) any { return geminiTool{t.Name, t.Description, geminiOf(t.InputSchema())} },
}

type mcpTool struct {
	Name         string             `json:"name"`
	Description  string             `json:"description"`
	InputSchema  *jsonschema.Schema `json:"inputSchema"`
	OutputSchema *jsonschema.Schema `json:"outputSchema"`
	Annotations  Hints              `json:"annotations"`
}

// Hints are what MCP tells of the effect of a tool.
type Hints struct {
	ReadOnly    bool `json:"readOnlyHint"`
	Destructive bool `json:"destructiveHint"`
	Idempotent  bool `json:"idempotentHint"`
	// OpenWorld says that it may reach what is not the engine's.
	OpenWorld bool `json:"openWorldHint"`
}

// Hints are those of the tool. Commands and code do whatever they are told, and sandboxes
// may reach what a call allows.
func (t *Tool) Hints() Hints {
	open := []string{"sandbox_create", "command_run", "command_start", "code_run", "network_set"}
	return Hints{t.Effect == Reads, t.Effect == Destroys, t.Again || t.Effect == Reads, slices.Contains(open, t.Name)}
}

type openAITool struct {
	Type     string         `json:"type"`
	Function openAIFunction `json:"function"`
}

type openAIFunction struct {
	Type        string `json:"type,omitempty"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Parameters  any    `json:"parameters"`
	Strict      bool   `json:"strict"`
}

// strict is a schema of which every property is required, and what was optional may be
// null. Nothing else may be given.
func strict(s *jsonschema.Schema) any {
	if len(s.Properties) == 0 {
		return map[string]any{"type": "object", "properties": map[string]any{}, "required": []string{}, "additionalProperties": false}
	}
	for name, p := range s.Properties {
		if slices.Contains(s.Required, name) {
			continue
		}
		p.Types, p.Type = []string{p.Type, "null"}, ""
		if len(p.Enum) > 0 {
			p.Enum = append(p.Enum, nil)
		}
	}
	s.Required = slices.Clone(s.PropertyOrder)
	return s
}

type anthropicTool struct {
	Name        string             `json:"name"`
	Description string             `json:"description"`
	InputSchema *jsonschema.Schema `json:"input_schema"`
	Strict      bool               `json:"strict,omitempty"`
}

// A request to Anthropic may have 20 strict tools, whose arguments that may be left out are
// at most 24 together, and is refused as a whole beyond that. One half is left to whoever
// has strict tools of their own beside these.
const (
	maxStrictTools    = 20 / 2
	maxStrictOptional = 24 / 2
)

// optional is how many arguments may be left out.
func (t *anthropicTool) optional() int {
	return len(t.InputSchema.Properties) - len(t.InputSchema.Required)
}

// markStrict marks tools as strict for as long as there is room, those with the fewest
// arguments that may be left out first.
func markStrict(list []any) {
	var byCost []*anthropicTool
	for _, one := range list {
		byCost = append(byCost, one.(*anthropicTool))
	}
	slices.SortStableFunc(byCost, func(a, b *anthropicTool) int { return a.optional() - b.optional() })
	room := maxStrictOptional
	for _, one := range byCost[:min(maxStrictTools, len(byCost))] {
		if room -= one.optional(); room < 0 {
			return
		}
		one.Strict = true
	}
}

type geminiTool struct {
	Name        string        `json:"name"`
	Description string        `json:"description"`
	Parameters  *geminiSchema `json:"parameters,omitempty"`
}

// geminiSchema is the part of OpenAPI's schema that Gemini has.
type geminiSchema struct {
	Type             string                   `json:"type"`
	Description      string                   `json:"description,omitempty"`
	Enum             []string                 `json:"enum,omitempty"`
	Items            *geminiSchema            `json:"items,omitempty"`
	Properties       map[string]*geminiSchema `json:"properties,omitempty"`
	Required         []string                 `json:"required,omitempty"`
	PropertyOrdering []string                 `json:"propertyOrdering,omitempty"`
}

// geminiOf translates a schema. An object without properties is none.
func geminiOf(s *jsonschema.Schema) *geminiSchema {
	if s == nil || s.Type == "object" && len(s.Properties) == 0 {
		return nil
	}
	g := &geminiSchema{Type: strings.ToUpper(s.Type), Description: s.Description, Items: geminiOf(s.Items), Required: s.Required, PropertyOrdering: s.PropertyOrder}
	for _, word := range s.Enum {
		g.Enum = append(g.Enum, word.(string))
	}
	for name, p := range s.Properties {
		if g.Properties == nil {
			g.Properties = map[string]*geminiSchema{}
		}
		g.Properties[name] = geminiOf(p)
	}
	return g
}
