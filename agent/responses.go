package agent

import (
	"encoding/json"

	"aether/sandbox"
)

// turnItems is a turn of a model's in a conversation of responses, of as many items as it has
// parts.
type turnItems struct {
	Output []json.RawMessage `json:"output"`
}

// bodyResponses is a request for a response. The provider is to remember nothing of it, so that
// what a model thought goes back with what it said.
func bodyResponses(model string, c Conversation) any {
	input := []json.RawMessage{}
	for _, m := range c.Messages {
		var turn turnItems
		if json.Unmarshal(m, &turn) == nil && turn.Output != nil {
			input = append(input, turn.Output...)
		} else {
			input = append(input, m)
		}
	}
	return map[string]any{"model": model, "instructions": c.System, "tools": c.Tools, "input": input, "store": false,
		"include": []string{"reasoning.encrypted_content"}, "max_output_tokens": maxAnswer, "stream": true}
}

func readResponses(body []byte) (r Reply, err error) {
	var m struct {
		Status     string `json:"status"`
		Incomplete *struct {
			Reason string `json:"reason"`
		} `json:"incomplete_details"`
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
		turnItems
		Usage struct {
			Input  int `json:"input_tokens"`
			Output int `json:"output_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return r, unreadable(err)
	}
	switch {
	case m.Incomplete != nil && m.Incomplete.Reason == "max_output_tokens":
		return r, errCut()
	case m.Incomplete != nil && m.Incomplete.Reason != "":
		return r, &sandbox.Error{Class: sandbox.Denied, Reason: "the provider does not answer this: " + clip(m.Incomplete.Reason, 80)}
	case m.Error != nil:
		return r, &sandbox.Error{Class: sandbox.Unavailable, Reason: "openai-responses: " + clip(m.Error.Message, 300)}
	case m.Output == nil:
		return r, unreadable(nil)
	}
	for _, item := range m.Output {
		var one struct {
			Type    string `json:"type"`
			Content []struct {
				Text    string `json:"text"`
				Refusal string `json:"refusal"`
			} `json:"content"`
		}
		if err := json.Unmarshal(item, &one); err != nil {
			return r, unreadable(err)
		}
		for _, part := range one.Content {
			if one.Type == "message" {
				r.Text += part.Text + part.Refusal
			}
		}
	}
	r.Message, r.Tokens = encode(m.turnItems), Tokens{m.Usage.Input, m.Usage.Output}
	return r, nil
}

// responsesStream is a stream of a response, whose last event has the whole.
type responsesStream struct{ whole json.RawMessage }

func (s *responsesStream) add(data []byte) (string, error) {
	var e struct {
		Type     string          `json:"type"`
		Delta    string          `json:"delta"`
		Message  string          `json:"message"`
		Response json.RawMessage `json:"response"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return "", err
	}
	switch e.Type {
	case "response.output_text.delta":
		return e.Delta, nil
	case "response.completed", "response.incomplete":
		s.whole = e.Response
	case "response.failed", "error":
		var failed struct {
			Error struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		if json.Unmarshal(e.Response, &failed) == nil && failed.Error.Message != "" {
			e.Message = failed.Error.Message
		}
		return "", &sandbox.Error{Class: sandbox.Unavailable, Reason: "openai-responses: its stream has failed: " + clip(e.Message, 300), Retry: true}
	}
	return "", nil
}

func (s *responsesStream) body() json.RawMessage {
	if string(s.whole) == "null" {
		return nil
	}
	return s.whole
}
