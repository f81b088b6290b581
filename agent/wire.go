package agent

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"aether/sandbox"
	"aether/tool"
)

// wire is how a provider is spoken with: where requests go, what they are, and what
// answers mean.
type wire struct {
	format tool.Format
	base   string
	path   func(model string) string
	sign   func(h http.Header, key string)
	body   func(model string, c Conversation) any
	read   func(body []byte) (Reply, error)
	stream func() assembler
}

// maxAnswer bounds the tokens of one answer, where a provider has to be told.
const maxAnswer = 16384

var wires = map[string]wire{
	"anthropic": {
		tool.Anthropic, "https://api.anthropic.com", func(string) string { return "/v1/messages" },
		func(h http.Header, key string) {
			h.Set("X-Api-Key", key)
			h.Set("Anthropic-Version", "2023-06-01")
		},
		func(model string, c Conversation) any {
			return map[string]any{"model": model, "max_tokens": maxAnswer, "system": c.System, "tools": c.Tools, "messages": c.Messages, "stream": true}
		},
		readAnthropic, func() assembler { return &anthropicStream{} },
	},
	"openai": {
		tool.OpenAI, "https://api.openai.com/v1", func(string) string { return "/chat/completions" },
		func(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) },
		func(model string, c Conversation) any {
			system := encode(map[string]any{"role": "system", "content": c.System})
			return map[string]any{"model": model, "tools": c.Tools, "messages": append([]json.RawMessage{system}, c.Messages...),
				"stream": true, "stream_options": map[string]any{"include_usage": true}}
		},
		readOpenAI, func() assembler { return &openAIStream{} },
	},
	"openai-responses": {
		tool.OpenAIResponses, "https://api.openai.com/v1", func(string) string { return "/responses" },
		func(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) },
		bodyResponses, readResponses, func() assembler { return &responsesStream{} },
	},
	"gemini": {
		tool.Gemini, "https://generativelanguage.googleapis.com",
		func(model string) string {
			return "/v1beta/models/" + url.PathEscape(model) + ":streamGenerateContent?alt=sse"
		},
		func(h http.Header, key string) { h.Set("X-Goog-Api-Key", key) },
		func(_ string, c Conversation) any {
			return map[string]any{"systemInstruction": map[string]any{"parts": []any{textPart(c.System)}}, "tools": c.Tools, "contents": c.Messages,
				"generationConfig": map[string]any{"maxOutputTokens": maxAnswer}}
		},
		readGemini, func() assembler { return &geminiStream{} },
	},
}

// encode is the JSON of what always has one.
func encode(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // values of our own making
	}
	return text
}

func textPart(text string) any { return map[string]any{"text": text} }

// say is the turn of whoever speaks with a model: answers to its calls, and text.
func say(f tool.Format, answers []json.RawMessage, text string) []json.RawMessage {
	switch f {
	case tool.OpenAI, tool.OpenAIResponses:
		if text != "" {
			answers = append(answers, encode(map[string]any{"role": "user", "content": text}))
		}
		return answers
	case tool.Gemini:
		if text != "" {
			answers = append(answers, encode(textPart(text)))
		}
		return []json.RawMessage{encode(map[string]any{"role": "user", "parts": answers})}
	}
	if text != "" {
		answers = append(answers, encode(map[string]any{"type": "text", "text": text}))
	}
	return []json.RawMessage{encode(map[string]any{"role": "user", "content": answers})}
}

// errCut is an answer that is no whole one.
func errCut() error {
	return &sandbox.Error{Class: sandbox.Exhausted, Reason: "the model's answer was cut for its length", Remedy: "give it smaller tasks, or a model that answers at more length"}
}

func unreadable(err error) error {
	return &sandbox.Error{Class: sandbox.Unavailable, Reason: "the model's answer is not of its provider's format", Err: err}
}

func readAnthropic(body []byte) (r Reply, err error) {
	var m struct {
		Content []json.RawMessage `json:"content"`
		Stop    string            `json:"stop_reason"`
		Usage   struct {
			Input   int `json:"input_tokens"`
			Written int `json:"cache_creation_input_tokens"`
			Cached  int `json:"cache_read_input_tokens"`
			Output  int `json:"output_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return r, unreadable(err)
	}
	if m.Stop == "max_tokens" {
		return r, errCut()
	}
	for _, block := range m.Content {
		var b struct{ Type, Text string }
		if err := json.Unmarshal(block, &b); err != nil {
			return r, unreadable(err)
		}
		if b.Type == "text" {
			r.Text += b.Text
		}
	}
	r.Message = encode(map[string]any{"role": "assistant", "content": m.Content})
	r.Tokens = Tokens{m.Usage.Input + m.Usage.Written + m.Usage.Cached, m.Usage.Output}
	return r, nil
}

func readOpenAI(body []byte) (r Reply, err error) {
	var m struct {
		Choices []struct {
			Message struct {
				Content   *string           `json:"content"`
				Refusal   string            `json:"refusal"`
				ToolCalls []json.RawMessage `json:"tool_calls"`
			} `json:"message"`
			Finish string `json:"finish_reason"`
		} `json:"choices"`
		Usage struct {
			Input  int `json:"prompt_tokens"`
			Output int `json:"completion_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return r, unreadable(err)
	}
	if len(m.Choices) == 0 {
		return r, unreadable(nil)
	}
	first := m.Choices[0]
	if first.Finish == "length" {
		return r, errCut()
	}
	// A message has more fields in an answer than a request may have.
	message := map[string]any{"role": "assistant", "content": first.Message.Content}
	if len(first.Message.ToolCalls) > 0 {
		message["tool_calls"] = first.Message.ToolCalls
	}
	if r.Text = first.Message.Refusal; first.Message.Content != nil {
		r.Text = *first.Message.Content
	}
	r.Message, r.Tokens = encode(message), Tokens{m.Usage.Input, m.Usage.Output}
	return r, nil
}

func readGemini(body []byte) (r Reply, err error) {
	var m struct {
		Candidates []struct {
			Content struct {
				// What a part is besides its text, as a signature of thoughts, goes back as it came.
				Parts []json.RawMessage `json:"parts"`
			} `json:"content"`
			Finish string `json:"finishReason"`
		} `json:"candidates"`
		Feedback struct {
			Block string `json:"blockReason"`
		} `json:"promptFeedback"`
		Usage struct {
			Input    int `json:"promptTokenCount"`
			Output   int `json:"candidatesTokenCount"`
			Thoughts int `json:"thoughtsTokenCount"`
		} `json:"usageMetadata"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return r, unreadable(err)
	}
	if m.Feedback.Block != "" {
		return r, &sandbox.Error{Class: sandbox.Denied, Reason: "the provider does not answer this: " + clip(m.Feedback.Block, 80)}
	}
	if len(m.Candidates) == 0 {
		return r, unreadable(nil)
	}
	first := m.Candidates[0]
	if first.Finish == "MAX_TOKENS" {
		return r, errCut()
	}
	for _, part := range first.Content.Parts {
		var p struct {
			Text    string `json:"text"`
			Thought bool   `json:"thought"`
		}
		if err := json.Unmarshal(part, &p); err != nil {
			return r, unreadable(err)
		}
		if !p.Thought {
			r.Text += p.Text
		}
	}
	r.Message = encode(map[string]any{"role": "model", "parts": first.Content.Parts})
	r.Tokens = Tokens{m.Usage.Input, m.Usage.Output + m.Usage.Thoughts}
	return r, nil
}

// clip is at most so many bytes of a text.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
