package tool

import (
	"bytes"
	"context"
	"encoding/json"

	"aether/sandbox"
)

// Request is a call that a model makes.
type Request struct {
	// ID is what the answer refers to, where the format has one.
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// maxRequests bounds the calls of one message.
const maxRequests = 128

// Calls reads the calls of a message in a format: a whole message of the model's, or one
// call of it. A message without calls has none. Errors: Invalid for what is no such
// message; what is wrong about a call, the call says.
func Calls(f Format, message []byte) (list []Request, err error) {
	if _, err := ParseFormat(string(f)); err != nil {
		return nil, err
	}
	if len(message) > 2*maxArguments {
		return nil, sandbox.Invalidf("message", "%d bytes are too many", len(message))
	}
	for _, one := range partsOf(message) {
		calls, err := readers[f](one)
		if err != nil {
			return nil, sandbox.Invalidf("message", "it is not one of %s: %.200s", f, err)
		}
		if list = append(list, calls...); len(list) > maxRequests {
			return nil, sandbox.Invalidf("message", "it has more than %d calls", maxRequests)
		}
	}
	for i := range list {
		if len(bytes.TrimSpace(list[i].Arguments)) == 0 {
			list[i].Arguments = json.RawMessage("{}")
		}
	}
	return list, nil
}

// partsOf are the elements of a list, or the one thing that is none.
func partsOf(message []byte) []json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(message, &list) == nil {
		return list
	}
	return []json.RawMessage{message}
}

var readers = map[Format]func(json.RawMessage) ([]Request, error){
	MCP: readMCP, OpenAI: readOpenAI, OpenAIResponses: readResponses, Anthropic: readAnthropic, Gemini: readGemini,
}

// readMCP reads the parameters of tools/call, or the whole request.
func readMCP(m json.RawMessage) ([]Request, error) {
	var call struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params *struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"params"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(m, &call); err != nil {
		return nil, err
	}
	switch {
	case call.Method == "tools/call" && call.Params != nil:
		return []Request{{string(call.ID), call.Params.Name, call.Params.Arguments}}, nil
	case call.Method == "" && call.Name != "":
		return []Request{{"", call.Name, call.Arguments}}, nil
	}
	return nil, nil
}

// readOpenAI reads a tool call, a message with several, or a whole completion.
func readOpenAI(m json.RawMessage) (list []Request, err error) {
	type toolCall struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function *struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	}
	type reply struct {
		toolCall
		ToolCalls []toolCall `json:"tool_calls"`
	}
	var whole struct {
		reply
		Choices []struct {
			Message reply `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(m, &whole); err != nil {
		return nil, err
	}
	calls := append([]toolCall{whole.toolCall}, whole.ToolCalls...)
	for _, c := range whole.Choices {
		calls = append(calls, c.Message.ToolCalls...)
	}
	for _, c := range calls {
		if c.Function != nil {
			list = append(list, Request{c.ID, c.Function.Name, json.RawMessage(c.Function.Arguments)})
		}
	}
	return list, nil
}

// readResponses reads an item of an output, or a whole response.
func readResponses(m json.RawMessage) (list []Request, err error) {
	type item struct {
		Type      string `json:"type"`
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	var whole struct {
		item
		Output []item `json:"output"`
	}
	if err := json.Unmarshal(m, &whole); err != nil {
		return nil, err
	}
	for _, one := range append([]item{whole.item}, whole.Output...) {
		if one.Type == "function_call" {
			list = append(list, Request{one.CallID, one.Name, json.RawMessage(one.Arguments)})
		}
	}
	return list, nil
}

// readAnthropic reads a block of a content, or a whole message.
func readAnthropic(m json.RawMessage) (list []Request, err error) {
	type block struct {
		Type  string          `json:"type"`
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	var whole struct {
		block
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(m, &whole); err != nil {
		return nil, err
	}
	var blocks []block
	if len(whole.Content) > 0 && whole.Content[0] == '[' {
		if err := json.Unmarshal(whole.Content, &blocks); err != nil {
			return nil, err
		}
	}
	for _, one := range append([]block{whole.block}, blocks...) {
		if one.Type == "tool_use" {
			list = append(list, Request{one.ID, one.Name, one.Input})
		}
	}
	return list, nil
}

// readGemini reads a part, a content, or a whole answer.
func readGemini(m json.RawMessage) (list []Request, err error) {
	type part struct {
		Call *struct {
			ID   string          `json:"id"`
			Name string          `json:"name"`
			Args json.RawMessage `json:"args"`
		} `json:"functionCall"`
	}
	type content struct {
		part
		Parts []part `json:"parts"`
	}
	var whole struct {
		content
		Candidates []struct {
			Content content `json:"content"`
		} `json:"candidates"`
	}
	if err := json.Unmarshal(m, &whole); err != nil {
		return nil, err
	}
	parts := append([]part{whole.part}, whole.Parts...)
	for _, c := range whole.Candidates {
		parts = append(parts, c.Content.Parts...)
	}
	for _, p := range parts {
		if p.Call != nil {
			list = append(list, Request{p.Call.ID, p.Call.Name, p.Call.Args})
		}
	}
	return list, nil
}

// Message is the answer to a call in a format: what goes into the next request to the
// model. Errors: Invalid for the format.
func (r Result) Message(f Format, to Request) (json.RawMessage, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	switch f {
	case MCP:
		return json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": string(text)}}, "structuredContent": json.RawMessage(text), "isError": r.Failure != nil})
	case OpenAI:
		return json.Marshal(map[string]any{"role": "tool", "tool_call_id": to.ID, "content": string(text)})
	case OpenAIResponses:
		return json.Marshal(map[string]any{"type": "function_call_output", "call_id": to.ID, "output": string(text)})
	case Anthropic:
		return json.Marshal(map[string]any{"type": "tool_result", "tool_use_id": to.ID, "content": string(text), "is_error": r.Failure != nil})
	case Gemini:
		answer := map[string]any{"name": to.Name, "response": json.RawMessage(text)}
		if to.ID != "" {
			answer["id"] = to.ID
		}
		return json.Marshal(map[string]any{"functionResponse": answer})
	}
	_, err = ParseFormat(string(f))
	return nil, err
}

// Call makes the calls of a message of a model's, one after the other, and gives their
// answers in the same format: what goes into the next request. None is a message without
// calls. Errors: Invalid for what is no message of the format.
func (s *Session) Call(ctx context.Context, f Format, message []byte) ([]json.RawMessage, error) {
	calls, err := Calls(f, message)
	if err != nil {
		return nil, err
	}
	answers := []json.RawMessage{}
	for _, c := range calls {
		answer, err := s.Do(ctx, c.Name, c.Arguments).Message(f, c)
		if err != nil {
			return nil, err
		}
		answers = append(answers, answer)
	}
	return answers, nil
}
