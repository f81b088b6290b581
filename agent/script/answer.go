package script

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// fill gives the calls of a turn with what they take of the answers before them.
func fill(calls []Call, conversation []message) ([]Call, error) {
	filled := make([]Call, len(calls))
	for i, c := range calls {
		if c.Next {
			name, _ := newest(conversation, "error.next.tool").(string)
			arguments, _ := newest(conversation, "error.next.arguments").(map[string]any)
			if name == "" {
				return nil, fmt.Errorf("no answer says which call is next")
			}
			filled[i] = Call{Name: name, Arguments: arguments}
			continue
		}
		filled[i] = Call{Name: c.Name, Arguments: map[string]any{}}
		for name, value := range c.Arguments {
			if of, ok := value.(map[string]any); ok {
				path, _ := of["answer"].(string)
				if value = newest(conversation, path); value == nil {
					return nil, fmt.Errorf("no answer has %.80q", path)
				}
			}
			filled[i].Arguments[name] = value
		}
	}
	return filled, nil
}

// newest is the field at a path of the newest answer that has it, or nil.
func newest(conversation []message, path string) any {
	for _, m := range slices.Backward(conversation) {
		for _, answer := range slices.Backward(m.said) {
			if value := field(answer, path); value != nil {
				return value
			}
		}
	}
	return nil
}

// field is the one at a path, through objects by name and through lists by index.
func field(value any, path string) any {
	for step := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// saidOf reads an answer: JSON, as text or in parts that are text. What is neither says nothing.
func saidOf(content json.RawMessage) any {
	var parts []struct {
		Text string `json:"text"`
	}
	var text string
	if json.Unmarshal(content, &parts) == nil {
		for _, p := range parts {
			text += p.Text
		}
	} else if json.Unmarshal(content, &text) != nil {
		text = string(content)
	}
	var value any
	if json.Unmarshal([]byte(text), &value) != nil {
		return nil
	}
	return value
}
