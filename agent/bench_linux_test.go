package agent

import (
	"context"
	"encoding/json"
	"testing"

	"aether/tool"
)

// steady is a model that always makes the same call.
type steady struct{ steps int }

// Format implements Model.
func (*steady) Format() tool.Format { return tool.Anthropic }

// Next implements Model.
func (s *steady) Next(_ context.Context, c Conversation) (Reply, error) {
	if c.Step > s.steps {
		return Reply{Message: json.RawMessage(`{"role":"assistant","content":[]}`)}, nil
	}
	const call = `{"sandbox":"here","path":"/"}`
	return Reply{Message: json.RawMessage(`{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"file_stat","input":` + call + `}]}`),
		Calls: []tool.Request{{ID: "1", Name: "file_stat", Arguments: json.RawMessage(call)}}}, nil
}

// BenchmarkStep is a step of the loop around a call, beside the call alone.
func BenchmarkStep(b *testing.B) {
	session, _ := newSession(b)
	b.Run("call", func(b *testing.B) {
		made := session.Do(b.Context(), "sandbox_create", []byte("{}")).Value.(tool.Sandbox).ID
		for b.Loop() {
			if r := session.Do(b.Context(), "file_stat", encode(args{"sandbox": made, "path": "/"})); r.Failure != nil {
				b.Fatal(r.Failure)
			}
		}
	})
	b.Run("step", func(b *testing.B) {
		out, err := Run(b.Context(), Options{Session: session, Model: &steady{b.N}, Task: "x", Budget: Budget{Steps: b.N + 1}})
		if err != nil || !out.OK() {
			b.Fatal(out, err)
		}
	})
}
