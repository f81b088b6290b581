package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"aether/sandbox"
)

// assembler puts the events of a stream together to what the provider would have answered at
// once, so that an answer is read in one way.
type assembler interface {
	// add takes the data of an event, and gives the text that it adds to the answer.
	add(data []byte) (text string, err error)
	// body is the answer, or nil if the stream has ended before it.
	body() json.RawMessage
}

// maxBlocks bounds the parts of an answer.
const maxBlocks = 4096

var (
	errEvent  = errors.New("an event of the stream has no place in it")
	errBroken = errors.New("the stream ended before the answer did")
)

// assemble reads a stream of server-sent events to its end.
func assemble(from io.Reader, a assembler, hear func(string)) ([]byte, error) {
	lines, data := bufio.NewReader(from), []byte(nil)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return nil, err
		}
		field := bytes.TrimRight(line, "\r\n")
		if value, ok := bytes.CutPrefix(field, []byte("data:")); ok {
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		}
		if len(data) > 0 && (len(field) == 0 || err == io.EOF) {
			text, wrong := a.add(data)
			if wrong != nil {
				return nil, wrong
			}
			if text != "" {
				hear(text)
			}
			data = nil
		}
		if err == io.EOF {
			if body := a.body(); body != nil {
				return body, nil
			}
			return nil, errBroken
		}
	}
}

// anthropicStream is a stream of Messages.
type anthropicStream struct {
	blocks []*anthropicBlock
	stop   string
	usage  map[string]json.RawMessage
	done   bool
}

type anthropicBlock struct {
	start                            map[string]any
	text, input, thinking, signature strings.Builder
}

func (s *anthropicStream) add(data []byte) (string, error) {
	var e struct {
		Type    string `json:"type"`
		Index   int    `json:"index"`
		Message struct {
			Usage map[string]json.RawMessage `json:"usage"`
		} `json:"message"`
		Block map[string]any `json:"content_block"`
		Delta struct {
			Text      string `json:"text"`
			Input     string `json:"partial_json"`
			Thinking  string `json:"thinking"`
			Signature string `json:"signature"`
			Stop      string `json:"stop_reason"`
		} `json:"delta"`
		Usage map[string]json.RawMessage `json:"usage"`
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return "", err
	}
	switch e.Type {
	case "message_start":
		s.usage = e.Message.Usage
	case "content_block_start":
		if e.Index != len(s.blocks) || e.Index >= maxBlocks || e.Block == nil {
			return "", errEvent
		}
		s.blocks = append(s.blocks, &anthropicBlock{start: e.Block})
	case "content_block_delta":
		if e.Index < 0 || e.Index >= len(s.blocks) {
			return "", errEvent
		}
		b := s.blocks[e.Index]
		b.text.WriteString(e.Delta.Text)
		b.input.WriteString(e.Delta.Input)
		b.thinking.WriteString(e.Delta.Thinking)
		b.signature.WriteString(e.Delta.Signature)
		return e.Delta.Text, nil
	case "message_delta":
		s.stop = e.Delta.Stop
		for name, n := range e.Usage {
			if s.usage == nil {
				s.usage = map[string]json.RawMessage{}
			}
			s.usage[name] = n // which is what it is so far
		}
	case "message_stop":
		s.done = true
	case "error":
		reason := "its stream has failed"
		if e.Error != nil {
			reason = clip(e.Error.Message, 300)
		}
		return "", &sandbox.Error{Class: sandbox.Unavailable, Reason: "anthropic: " + reason, Retry: true}
	}
	return "", nil
}

func (s *anthropicStream) body() json.RawMessage {
	if !s.done {
		return nil
	}
	content := []any{}
	for _, b := range s.blocks {
		for name, more := range map[string]string{"text": b.text.String(), "thinking": b.thinking.String(), "signature": b.signature.String()} {
			if more != "" {
				before, _ := b.start[name].(string)
				b.start[name] = before + more
			}
		}
		if input := b.input.String(); input != "" {
			if !json.Valid([]byte(input)) {
				return nil // it was cut
			}
			b.start["input"] = json.RawMessage(input)
		}
		content = append(content, b.start)
	}
	return encode(map[string]any{"content": content, "stop_reason": s.stop, "usage": s.usage})
}

// openAIStream is a stream of chat completions.
type openAIStream struct {
	content, refusal strings.Builder
	calls            []*openAICall
	finish           string
	usage            json.RawMessage
	done             bool
}

type openAICall struct {
	id, name  string
	arguments strings.Builder
}

func (s *openAIStream) add(data []byte) (string, error) {
	if string(data) == "[DONE]" {
		s.done = true
		return "", nil
	}
	var e struct {
		Choices []struct {
			Delta struct {
				Content string `json:"content"`
				Refusal string `json:"refusal"`
				Calls   []struct {
					Index    int    `json:"index"`
					ID       string `json:"id"`
					Function struct {
						Name      string `json:"name"`
						Arguments string `json:"arguments"`
					} `json:"function"`
				} `json:"tool_calls"`
			} `json:"delta"`
			Finish string `json:"finish_reason"`
		} `json:"choices"`
		Usage json.RawMessage `json:"usage"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return "", err
	}
	if len(e.Usage) > 0 && string(e.Usage) != "null" {
		s.usage = e.Usage
	}
	if len(e.Choices) == 0 {
		return "", nil
	}
	first := e.Choices[0]
	if first.Finish != "" {
		s.finish = first.Finish
	}
	for _, c := range first.Delta.Calls {
		switch {
		case c.Index < 0 || c.Index > len(s.calls) || c.Index >= maxBlocks:
			return "", errEvent
		case c.Index == len(s.calls):
			s.calls = append(s.calls, &openAICall{})
		}
		call := s.calls[c.Index]
		if call.id == "" {
			call.id, call.name = c.ID, c.Function.Name
		}
		call.arguments.WriteString(c.Function.Arguments)
	}
	s.content.WriteString(first.Delta.Content)
	s.refusal.WriteString(first.Delta.Refusal)
	return first.Delta.Content, nil
}

func (s *openAIStream) body() json.RawMessage {
	if !s.done || s.finish == "" {
		return nil
	}
	message := map[string]any{"role": "assistant", "content": nil, "refusal": s.refusal.String()}
	if s.content.Len() > 0 {
		message["content"] = s.content.String()
	}
	var calls []any
	for _, c := range s.calls {
		calls = append(calls, map[string]any{"id": c.id, "type": "function", "function": map[string]any{"name": c.name, "arguments": c.arguments.String()}})
	}
	message["tool_calls"] = calls
	return encode(map[string]any{"choices": []any{map[string]any{"message": message, "finish_reason": s.finish}}, "usage": s.usage})
}

// geminiStream is a stream of answers, each with more parts.
type geminiStream struct {
	parts           []json.RawMessage
	finish          string
	feedback, usage json.RawMessage
}

func (s *geminiStream) add(data []byte) (text string, err error) {
	var e struct {
		Candidates []struct {
			Content struct {
				Parts []json.RawMessage `json:"parts"`
			} `json:"content"`
			Finish string `json:"finishReason"`
		} `json:"candidates"`
		Feedback json.RawMessage `json:"promptFeedback"`
		Usage    json.RawMessage `json:"usageMetadata"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return "", err
	}
	if len(e.Feedback) > 0 {
		s.feedback = e.Feedback
	}
	if len(e.Usage) > 0 {
		s.usage = e.Usage
	}
	if len(e.Candidates) == 0 {
		return "", nil
	}
	first := e.Candidates[0]
	if s.parts = append(s.parts, first.Content.Parts...); len(s.parts) > maxBlocks {
		return "", errEvent
	}
	if first.Finish != "" {
		s.finish = first.Finish
	}
	for _, part := range first.Content.Parts {
		var p struct {
			Text    string `json:"text"`
			Thought bool   `json:"thought"`
		}
		if json.Unmarshal(part, &p) == nil && !p.Thought {
			text += p.Text
		}
	}
	return text, nil
}

func (s *geminiStream) body() json.RawMessage {
	if s.finish == "" && s.feedback == nil {
		return nil
	}
	answer := map[string]any{"promptFeedback": s.feedback, "usageMetadata": s.usage}
	if s.finish != "" {
		answer["candidates"] = []any{map[string]any{"content": map[string]any{"parts": s.parts}, "finishReason": s.finish}}
	}
	return encode(answer)
}
