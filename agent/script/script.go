// Package script is a server on the loopback that speaks as the providers of models do, and says
// what a script says: for tests and demonstrations of agents, where no model is. It knows
// nothing of sandboxes, and holds requests to the providers' rules.
package script

import (
	"encoding/json"
	"io"
	"regexp"
	"sync"

	"aether/sandbox"
)

// Script is what is said, by the name of a line of a run: "main", and "1", "2" and so on for
// what was forked from it.
type Script map[string][]Turn

// Turn is one of a model's.
type Turn struct {
	Text  string `json:"text,omitempty"`
	Calls []Call `json:"calls,omitempty"`
	// Refuse are statuses that are answered first, one for each request.
	Refuse []int `json:"refuse,omitempty"`
	// Plain has the answer be given at once, though a stream was asked for.
	Plain bool `json:"plain,omitempty"`
	// Break has so many streams end within the answer first.
	Break int `json:"break,omitempty"`
}

// Call is a call of a tool. An argument that is an object {"answer": "sandbox"} is that field
// of the newest answer that has it; parts of a path are separated by dots.
type Call struct {
	Name      string         `json:"name,omitempty"`
	Arguments map[string]any `json:"arguments,omitempty"`
	// Next has it be the call that the newest failure says is likely to help.
	Next bool `json:"next,omitempty"`
}

const maxScript = 16 << 20

// Read reads a script of JSON. Errors: Invalid.
func Read(from io.Reader) (Script, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxScript+1))
	if err != nil {
		return nil, err
	}
	var s Script
	if err := json.Unmarshal(text, &s); err != nil || len(text) > maxScript || len(s) == 0 {
		return nil, sandbox.Invalidf("script", "it is not an object of lines with their turns: %v", err)
	}
	return s, nil
}

// message is one of a conversation, in no provider's format.
type message struct {
	model   bool
	text    string
	calls   []string // ids that a model gave, or names where there are none
	answers []string // ids that were answered
	said    []any    // what the answers say
}

var branch = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bthis is branch ([0-9.]+), attempt\b`) })

// turn finds whose turn it is in a conversation: the line, and how many turns it had.
func turn(conversation []message) (line string, index int) {
	line = "main"
	for _, m := range conversation {
		if found := branch().FindAllStringSubmatch(m.text, -1); !m.model && found != nil {
			line, index = found[len(found)-1][1], 0
		}
		if m.model {
			index++
		}
	}
	return line, index
}

// check holds a conversation to what all providers want: it begins and ends with what was
// said to the model, and each call of the model's is answered in the turn after it, once.
func check(conversation []message) string {
	if len(conversation) == 0 || conversation[0].model || conversation[len(conversation)-1].model {
		return "the conversation must begin and end with a turn of the user"
	}
	open := map[string]int{}
	for _, m := range conversation {
		if m.model && len(open) > 0 {
			return "a tool call has no answer"
		}
		for _, id := range m.answers {
			if open[id]--; open[id] < 0 {
				return "an answer is to no tool call"
			}
			if open[id] == 0 {
				delete(open, id)
			}
		}
		if !m.model && len(m.answers) == 0 && len(open) > 0 {
			return "a tool call is not answered at once"
		}
		for _, id := range m.calls {
			open[id]++
		}
	}
	if len(open) > 0 {
		return "a tool call has no answer"
	}
	return ""
}
