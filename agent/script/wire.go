package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// wire is one provider's: how its requests are read and its answers written.
type wire struct {
	pattern string
	key     func(http.Header) string
	// read gives the conversation of a request, and whether it has tools.
	read   func(body []byte) ([]message, bool, error)
	answer func(t Turn, ids []string, tokens [2]int) any
	stream func(t Turn, ids []string, tokens [2]int) []any
	refuse func(status int, why string) any
}

func bearer(h http.Header) string {
	key, _ := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	return key
}

func refuseOpenAI(_ int, why string) any {
	return object{"error": object{"message": why, "type": "invalid_request_error", "param": nil, "code": nil}}
}

var wires = []wire{
	{"POST /v1/messages", anthropicKey, readAnthropic, answerAnthropic, streamAnthropic, func(_ int, why string) any {
		return object{"type": "error", "error": object{"type": "invalid_request_error", "message": why}}
	}},
	{"POST /v1/chat/completions", bearer, readOpenAI, answerOpenAI, streamOpenAI, refuseOpenAI},
	{"POST /v1/responses", bearer, readResponses, answerResponses, streamResponses, refuseOpenAI},
	{"POST /v1beta/models/{call}", func(h http.Header) string { return h.Get("X-Goog-Api-Key") }, readGemini, answerGemini, streamGemini, func(status int, why string) any {
		return object{"error": object{"code": status, "message": why, "status": "INVALID_ARGUMENT"}}
	}},
}

type object = map[string]any

func anthropicKey(h http.Header) string {
	if h.Get("Anthropic-Version") == "" {
		return ""
	}
	if key := bearer(h); key != "" {
		return key // as newer clients send it
	}
	return h.Get("X-Api-Key")
}

var errShape = errors.New("the request is not of this provider's format")

func readAnthropic(body []byte) (list []message, tools bool, err error) {
	var r struct {
		Model     string `json:"model"`
		MaxTokens int    `json:"max_tokens"`
		Tools     []struct {
			Name   string         `json:"name"`
			Schema map[string]any `json:"input_schema"`
		} `json:"tools"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &r); err != nil || r.Model == "" || r.MaxTokens < 1 {
		return nil, false, errors.Join(errShape, err)
	}
	for _, m := range r.Messages {
		one := message{model: m.Role == "assistant"}
		var blocks []struct {
			Type      string          `json:"type"`
			Text      string          `json:"text"`
			ID        string          `json:"id"`
			ToolUseID string          `json:"tool_use_id"`
			Content   json.RawMessage `json:"content"`
		}
		if json.Unmarshal(m.Content, &one.text) != nil {
			if err := json.Unmarshal(m.Content, &blocks); err != nil {
				return nil, false, errors.Join(errShape, err)
			}
		}
		for _, b := range blocks {
			switch b.Type {
			case "text":
				one.text += b.Text
			case "tool_use":
				one.calls = append(one.calls, b.ID)
			case "tool_result":
				one.answers, one.said = append(one.answers, b.ToolUseID), append(one.said, saidOf(b.Content))
			}
		}
		list = append(list, one)
	}
	return list, len(r.Tools) > 0 && r.Tools[0].Name != "" && r.Tools[0].Schema != nil, nil
}

func answerAnthropic(t Turn, ids []string, tokens [2]int) any {
	content, stop := []any{}, "end_turn"
	if t.Text != "" {
		content = append(content, object{"type": "text", "text": t.Text, "citations": nil})
	}
	for i, c := range t.Calls {
		content, stop = append(content, object{"type": "tool_use", "id": ids[i], "name": c.Name, "input": c.Arguments}), "tool_use"
	}
	return object{"id": "msg_script", "type": "message", "role": "assistant", "model": "script", "content": content, "stop_reason": stop, "stop_sequence": nil,
		"usage": object{"input_tokens": tokens[0], "output_tokens": tokens[1]}}
}

func readOpenAI(body []byte) (list []message, tools bool, err error) {
	var r struct {
		Model string `json:"model"`
		Tools []struct {
			Type     string `json:"type"`
			Function struct {
				Name       string         `json:"name"`
				Parameters map[string]any `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
		Messages []struct {
			Role      string          `json:"role"`
			Content   json.RawMessage `json:"content"`
			ToolCalls []struct {
				ID string `json:"id"`
			} `json:"tool_calls"`
			ToolCallID string `json:"tool_call_id"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &r); err != nil || r.Model == "" {
		return nil, false, errors.Join(errShape, err)
	}
	for _, m := range r.Messages {
		if m.Role == "system" || m.Role == "developer" {
			continue
		}
		one := message{model: m.Role == "assistant"}
		if m.Role == "tool" {
			one.answers, one.said = []string{m.ToolCallID}, []any{saidOf(m.Content)}
		} else {
			one.text = textOf(m.Content)
		}
		for _, c := range m.ToolCalls {
			one.calls = append(one.calls, c.ID)
		}
		list = append(list, one)
	}
	return list, len(r.Tools) > 0 && r.Tools[0].Type == "function" && r.Tools[0].Function.Parameters != nil, nil
}

// textOf is a content: text, or parts that have some.
func textOf(content json.RawMessage) string {
	var text string
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	if json.Unmarshal(content, &parts) == nil {
		for _, p := range parts {
			text += p.Text
		}
	}
	return text
}

func answerOpenAI(t Turn, ids []string, tokens [2]int) any {
	said, finish := object{"role": "assistant", "content": nil, "refusal": nil, "annotations": []any{}}, "stop"
	if t.Text != "" {
		said["content"] = t.Text
	}
	var calls []any
	for i, c := range t.Calls {
		calls = append(calls, object{"id": ids[i], "type": "function", "function": object{"name": c.Name, "arguments": text(c.Arguments)}})
	}
	if calls != nil {
		said["tool_calls"], finish = calls, "tool_calls"
	}
	return object{"id": "chatcmpl-script", "object": "chat.completion", "created": 0, "model": "script",
		"choices": []any{object{"index": 0, "message": said, "logprobs": nil, "finish_reason": finish}},
		"usage":   object{"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": tokens[0] + tokens[1]}}
}

func text(arguments map[string]any) string {
	if arguments == nil {
		return "{}"
	}
	written, err := json.Marshal(arguments)
	if err != nil {
		panic(err) // it was read from JSON
	}
	return string(written)
}

func readGemini(body []byte) (list []message, tools bool, err error) {
	type called struct {
		ID       string          `json:"id"`
		Name     string          `json:"name"`
		Response json.RawMessage `json:"response"`
	}
	var r struct {
		Tools []struct {
			Declarations []struct {
				Name string `json:"name"`
			} `json:"functionDeclarations"`
		} `json:"tools"`
		Contents []struct {
			Role  string `json:"role"`
			Parts []struct {
				Text     string  `json:"text"`
				Call     *called `json:"functionCall"`
				Response *called `json:"functionResponse"`
			} `json:"parts"`
		} `json:"contents"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, false, errors.Join(errShape, err)
	}
	for _, m := range r.Contents {
		if m.Role != "user" && m.Role != "model" || len(m.Parts) == 0 {
			return nil, false, fmt.Errorf("%w: a content has no role, or no part", errShape)
		}
		one := message{model: m.Role == "model"}
		for _, p := range m.Parts {
			one.text += p.Text
			if p.Call != nil {
				one.calls = append(one.calls, p.Call.ID+p.Call.Name)
			}
			if p.Response != nil {
				one.answers, one.said = append(one.answers, p.Response.ID+p.Response.Name), append(one.said, saidOf(p.Response.Response))
			}
		}
		list = append(list, one)
	}
	return list, len(r.Tools) > 0 && len(r.Tools[0].Declarations) > 0, nil
}

func answerGemini(t Turn, ids []string, tokens [2]int) any {
	parts := []any{}
	if t.Text != "" {
		parts = append(parts, object{"text": t.Text})
	}
	for i, c := range t.Calls {
		parts = append(parts, object{"functionCall": object{"id": ids[i], "name": c.Name, "args": c.Arguments}, "thoughtSignature": "c2NyaXB0"})
	}
	return object{"candidates": []any{object{"content": object{"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": object{"promptTokenCount": tokens[0], "candidatesTokenCount": tokens[1], "totalTokenCount": tokens[0] + tokens[1]}, "modelVersion": "script"}
}
