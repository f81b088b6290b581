package agent

import (
	"context"
	"encoding/json"

	"aether/tool"
)

// Model is somebody who answers a conversation, by calls of tools until there is no more
// to do.
type Model interface {
	// Format is how it is told of tools, and tells of calls.
	Format() tool.Format
	// Next is the model's turn. It may be asked for several lines at once. Errors:
	// Unavailable if it cannot be reached, or does not answer; Denied; Exhausted for an
	// answer that was cut.
	Next(ctx context.Context, c Conversation) (Reply, error)
}

// Conversation is what a model is asked to go on with.
type Conversation struct {
	// Line and Step say which turn of a run it is: the first step is 1.
	Line   string
	Step   int
	System string
	// Tools and Messages are in the model's format.
	Tools    json.RawMessage
	Messages []json.RawMessage
	// Hear is told the text of the answer as it comes, if it is not nil. What was heard of an
	// answer that failed is told anew.
	Hear func(text string)
}

// Reply is a turn of a model's.
type Reply struct {
	// Message is it, as it stands in the conversation from now on.
	Message json.RawMessage `json:"message"`
	Text    string          `json:"text,omitempty"`
	Calls   []tool.Request  `json:"calls,omitempty"`
	Tokens  Tokens          `json:"tokens"`
}

// Tokens are what was read and written by a model.
type Tokens struct {
	Input  int `json:"input"`
	Output int `json:"output"`
}

func (t Tokens) sum() int { return t.Input + t.Output }

func (t Tokens) plus(other Tokens) Tokens {
	return Tokens{t.Input + other.Input, t.Output + other.Output}
}
