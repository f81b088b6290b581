package tool

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"aether/engine"
)

// offer is what an agent is told of a tool: its arguments, in whatever format.
type offer struct {
	Properties map[string]any `json:"properties"`
	Required   []string       `json:"required"`
}

// offers reads a projected list, as somebody does who knows the format and nothing else.
func offers(t *testing.T, f Format, list []byte) map[string]offer {
	t.Helper()
	type one struct {
		Name     string `json:"name"`
		Input    offer  `json:"inputSchema"`
		Schema   offer  `json:"input_schema"`
		Params   offer  `json:"parameters"`
		Function struct {
			Name   string `json:"name"`
			Params offer  `json:"parameters"`
		} `json:"function"`
	}
	var tools []one
	switch f {
	case MCP:
		var answer struct{ Tools []one }
		read(t, list, &answer)
		tools = answer.Tools
	case Gemini:
		var groups []struct{ FunctionDeclarations []one }
		read(t, list, &groups)
		tools = groups[0].FunctionDeclarations
	default:
		read(t, list, &tools)
	}
	found := map[string]offer{}
	for _, o := range tools {
		switch f {
		case MCP:
			found[o.Name] = o.Input
		case Anthropic:
			found[o.Name] = o.Schema
		case OpenAI:
			found[o.Function.Name] = o.Function.Params
		default:
			found[o.Name] = o.Params
		}
	}
	return found
}

func read(t *testing.T, text []byte, to any) {
	t.Helper()
	if err := json.Unmarshal(text, to); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// scripted is an agent that knows the list of tools in one format, and nothing else.
type scripted struct {
	t      *testing.T
	s      *Session
	f      Format
	offers map[string]offer
	calls  int
}

// said is an answer, as the agent reads it.
type said map[string]any

// at is a field of an answer, by its path.
func (a *scripted) at(answer said, path string) any {
	a.t.Helper()
	var value any = map[string]any(answer)
	for step := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			var i int
			if _, err := fmt.Sscan(step, &i); err != nil || i >= len(v) {
				a.t.Fatalf("%s: the answer has no %s: %v", a.f, path, answer)
			}
			value = v[i]
		default:
			a.t.Fatalf("%s: the answer has no %s: %v", a.f, path, answer)
		}
	}
	return value
}

// call makes a call in the agent's format and gives the answer, which it reads in that too.
func (a *scripted) call(name string, arguments map[string]any) said {
	a.t.Helper()
	known, ok := a.offers[name]
	if !ok {
		a.t.Fatalf("%s: no tool %s is offered", a.f, name)
	}
	given := map[string]any{}
	for key, value := range arguments {
		if known.Properties[key] == nil {
			a.t.Fatalf("%s: %s is offered without %s", a.f, name, key)
		}
		given[key] = value
	}
	for _, key := range known.Required {
		if _, ok := given[key]; !ok {
			given[key] = nil // as strict modes have it
		}
	}
	a.calls++
	id := fmt.Sprintf("call_%d", a.calls)
	answers, err := a.s.Call(a.t.Context(), a.f, args(speak(a.f, id, name, given)).text(a.t))
	if err != nil || len(answers) != 1 {
		a.t.Fatalf("%s: %s gives %s, %v", a.f, name, answers, err)
	}
	return hear(a.t, a.f, id, answers[0])
}

// speak is the message of a model with one call.
func speak(f Format, id, name string, arguments map[string]any) map[string]any {
	text, err := json.Marshal(arguments)
	if err != nil {
		panic(err) // it was read from JSON
	}
	switch f {
	case MCP:
		return map[string]any{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": map[string]any{"name": name, "arguments": arguments}}
	case OpenAI:
		call := map[string]any{"id": id, "type": "function", "function": map[string]any{"name": name, "arguments": string(text)}}
		return map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{call}}
	case OpenAIResponses:
		return map[string]any{"output": []any{map[string]any{"type": "function_call", "id": "fc_" + id, "call_id": id, "name": name, "arguments": string(text), "status": "completed"}}}
	case Anthropic:
		return map[string]any{"role": "assistant", "content": []any{map[string]any{"type": "tool_use", "id": id, "name": name, "input": arguments}}}
	}
	return map[string]any{"role": "model", "parts": []any{map[string]any{"functionCall": map[string]any{"id": id, "name": name, "args": arguments}}}}
}

// hear reads the answer to a call out of what goes into the next request.
func hear(t *testing.T, f Format, id string, message []byte) (answer said) {
	t.Helper()
	var m struct {
		Structured       json.RawMessage `json:"structuredContent"`
		IsError          bool            `json:"isError"`
		Failed           bool            `json:"is_error"`
		Role, Content    any
		Type, Output     string
		ToolCallID       string `json:"tool_call_id"`
		CallID           string `json:"call_id"`
		ToolUseID        string `json:"tool_use_id"`
		FunctionResponse struct {
			ID       string
			Response json.RawMessage
		} `json:"functionResponse"`
	}
	read(t, message, &m)
	failed := false
	switch f {
	case MCP:
		read(t, m.Structured, &answer)
		failed = m.IsError
		m.CallID = id // the answer of JSON-RPC has it, outside of this
	case OpenAI:
		read(t, []byte(m.Content.(string)), &answer)
		m.CallID = m.ToolCallID
	case OpenAIResponses:
		read(t, []byte(m.Output), &answer)
	case Anthropic:
		read(t, []byte(m.Content.(string)), &answer)
		failed, m.CallID = m.Failed, m.ToolUseID
	case Gemini:
		read(t, m.FunctionResponse.Response, &answer)
		m.CallID = m.FunctionResponse.ID
	}
	if m.CallID != id {
		t.Errorf("%s: the answer is to %q, not to %q: %s", f, m.CallID, id, message)
	}
	if f == MCP || f == Anthropic {
		if (answer["error"] != nil) != failed {
			t.Errorf("%s: a failure is told as %v: %s", f, failed, message)
		}
	}
	return answer
}

// TestAgentInEveryFormat: an agent that knows nothing but the list of tools makes a sandbox,
// writes a program, runs it, reads a failure, builds its next call of the fields of that
// answer alone, forks, takes a snapshot, goes back and cleans up, in every format; and what
// it did is so in the engine.
func TestAgentInEveryFormat(t *testing.T) {
	h := newHouse(t)
	for _, f := range Formats() {
		t.Run(string(f), func(t *testing.T) {
			s := h.session(alice, Options{})
			list, err := Project(f, s.Tools())
			if err != nil {
				t.Fatal(err)
			}
			a := &scripted{t: t, s: s, f: f, offers: offers(t, f, list)}
			if len(a.offers) != len(s.Tools()) {
				t.Fatalf("%d tools are offered", len(a.offers))
			}
			a.work(h)
		})
	}
	page, err := h.engine.List(t.Context(), alice, engine.Query{States: []engine.State{engine.Running, engine.Paused}})
	if err != nil || len(page.Sandboxes) > 0 {
		t.Errorf("left are %+v, %v", page.Sandboxes, err)
	}
}

func (a *scripted) work(h *house) {
	t := a.t
	id := a.at(a.call("sandbox_create", nil), "sandbox").(string)
	if got, err := h.engine.Get(t.Context(), alice, id); err != nil || got.State != engine.Running {
		t.Fatalf("the sandbox is %+v, %v", got, err)
	}
	a.call("file_write", args{"sandbox": id, "path": "/tmp/app/main.sh", "content": "cat /tmp/app/inputt\n"})
	a.call("file_write", args{"sandbox": id, "path": "/tmp/app/input", "content": "right\n"})
	program := func(id string, status float64, stdout string) {
		t.Helper()
		ran := a.call("command_run", args{"sandbox": id, "command": "sh /tmp/app/main.sh"})
		if a.at(ran, "exit_code") != status || a.at(ran, "stdout.text") != stdout {
			t.Errorf("the program ran as %v", ran)
		}
	}
	program(id, 1, "")
	failed := a.call("file_read", args{"sandbox": id, "path": "/tmp/app/inputt"})
	if a.at(failed, "error.class") != "not_found" || a.at(failed, "error.retry") != false {
		t.Errorf("the failure is %v", failed)
	}
	// Nothing of the next call is known but by that answer, nor of the one after it.
	listed := a.call(a.at(failed, "error.next.tool").(string), a.at(failed, "error.next.arguments").(map[string]any))
	var names []string
	for i := range a.at(listed, "files").([]any) {
		names = append(names, a.at(listed, fmt.Sprintf("files.%d.path", i)).(string))
	}
	i := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix("/tmp/app/inputt", name) })
	if i < 0 {
		t.Fatalf("what the failure said to do gives %v", listed)
	}
	a.call("file_edit", args{"sandbox": id, "path": "/tmp/app/main.sh", "old": "/tmp/app/inputt", "new": names[i]})
	program(id, 0, "right\n")

	shot := a.at(a.call("snapshot_create", args{"sandbox": id}), "snapshot").(string)
	children := a.call("sandbox_fork", args{"sandbox": id, "count": 2})
	one, two := a.at(children, "sandboxes.0.sandbox").(string), a.at(children, "sandboxes.1.sandbox").(string)
	a.call("file_write", args{"sandbox": one, "path": "/tmp/app/input", "content": "forked\n"})
	program(one, 0, "forked\n")
	program(two, 0, "right\n")
	a.call("file_remove", args{"sandbox": id, "path": "/tmp/app"})
	if ran := a.call("command_run", args{"sandbox": id, "command": "test -e /tmp/app"}); a.at(ran, "exit_code") != 1.0 {
		t.Errorf("what was removed is there: %v", ran)
	}
	a.call("sandbox_rollback", args{"sandbox": id, "snapshot": shot})
	program(id, 0, "right\n")
	for _, id := range []string{one, two, id} {
		a.call("sandbox_destroy", args{"sandbox": id})
		if got, err := h.engine.Get(t.Context(), alice, id); err != nil || got.State != engine.Ended {
			t.Errorf("after its end %s is %s, %v", id, got.State, err)
		}
	}
	a.call("snapshot_delete", args{"snapshot": shot})
	gone := a.call("command_run", args{"sandbox": id, "command": "true"})
	if a.at(gone, "error.next.tool") != "sandbox_create" {
		t.Errorf("what is gone answers %v", gone)
	}
}
