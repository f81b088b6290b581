package script

// halves cuts a text in two, each of which may be empty.
func halves(text string) []string {
	letters := []rune(text)
	return []string{string(letters[:len(letters)/2]), string(letters[len(letters)/2:])}
}

func streamAnthropic(t Turn, ids []string, tokens [2]int) []any {
	events := []any{object{"type": "message_start", "message": object{"id": "msg_script", "type": "message", "role": "assistant", "model": "script", "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": object{"input_tokens": tokens[0], "output_tokens": 1}}}, object{"type": "ping"}}
	index, stop := 0, "end_turn"
	block := func(start, first, second object) {
		events = append(events, object{"type": "content_block_start", "index": index, "content_block": start}, object{"type": "content_block_delta", "index": index, "delta": first},
			object{"type": "content_block_delta", "index": index, "delta": second}, object{"type": "content_block_stop", "index": index})
		index++
	}
	if t.Text != "" {
		h := halves(t.Text)
		block(object{"type": "text", "text": ""}, object{"type": "text_delta", "text": h[0]}, object{"type": "text_delta", "text": h[1]})
	}
	for i, c := range t.Calls {
		h := halves(text(c.Arguments))
		block(object{"type": "tool_use", "id": ids[i], "name": c.Name, "input": object{}}, object{"type": "input_json_delta", "partial_json": h[0]}, object{"type": "input_json_delta", "partial_json": h[1]})
		stop = "tool_use"
	}
	return append(events, object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": tokens[1]}}, object{"type": "message_stop"})
}

func streamOpenAI(t Turn, ids []string, tokens [2]int) []any {
	var events []any
	chunk := func(delta object, finish any) {
		events = append(events, object{"id": "chatcmpl-script", "object": "chat.completion.chunk", "created": 0, "model": "script", "usage": nil,
			"choices": []any{object{"index": 0, "delta": delta, "finish_reason": finish}}})
	}
	finish := "stop"
	chunk(object{"role": "assistant", "content": nil}, nil)
	for _, half := range halves(t.Text) {
		chunk(object{"content": half}, nil)
	}
	for i, c := range t.Calls {
		finish = "tool_calls"
		chunk(object{"tool_calls": []any{object{"index": i, "id": ids[i], "type": "function", "function": object{"name": c.Name, "arguments": ""}}}}, nil)
		for _, half := range halves(text(c.Arguments)) {
			chunk(object{"tool_calls": []any{object{"index": i, "function": object{"arguments": half}}}}, nil)
		}
	}
	chunk(object{}, finish)
	return append(events, object{"id": "chatcmpl-script", "object": "chat.completion.chunk", "created": 0, "model": "script", "choices": []any{},
		"usage": object{"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": tokens[0] + tokens[1]}}, "[DONE]")
}

func streamGemini(t Turn, ids []string, tokens [2]int) []any {
	var events []any
	answer := func(finish string, parts ...any) {
		candidate := object{"content": object{"role": "model", "parts": parts}, "index": 0}
		if finish != "" {
			candidate["finishReason"] = finish
		}
		events = append(events, object{"candidates": []any{candidate}, "modelVersion": "script",
			"usageMetadata": object{"promptTokenCount": tokens[0], "candidatesTokenCount": tokens[1], "totalTokenCount": tokens[0] + tokens[1]}})
	}
	for _, half := range halves(t.Text) {
		if half != "" {
			answer("", object{"text": half})
		}
	}
	for i, c := range t.Calls {
		answer("", object{"functionCall": object{"id": ids[i], "name": c.Name, "args": c.Arguments}, "thoughtSignature": "c2NyaXB0"})
	}
	answer("STOP", object{"text": ""})
	return events
}
