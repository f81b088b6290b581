package script

import (
	"encoding/json"
	"errors"
	"fmt"
)

func readResponses(body []byte) (list []message, tools bool, err error) {
	var r struct {
		Model string          `json:"model"`
		Input json.RawMessage `json:"input"`
		Tools []struct {
			Type       string         `json:"type"`
			Name       string         `json:"name"`
			Parameters map[string]any `json:"parameters"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &r); err != nil || r.Model == "" {
		return nil, false, errors.Join(errShape, err)
	}
	var items []struct {
		Type    string          `json:"type"`
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
		CallID  string          `json:"call_id"`
		Output  json.RawMessage `json:"output"`
	}
	var text string
	if json.Unmarshal(r.Input, &text) == nil {
		list = append(list, message{text: text})
	} else if err := json.Unmarshal(r.Input, &items); err != nil {
		return nil, false, errors.Join(errShape, err)
	}
	for _, item := range items {
		one := message{}
		switch {
		case item.Type == "function_call" && item.CallID != "":
			one.model, one.calls = true, []string{item.CallID}
		case item.Type == "function_call_output":
			one.answers, one.said = []string{item.CallID}, []any{saidOf(item.Output)}
		case item.Type == "reasoning":
			one.model = true
		case item.Role == "system" || item.Role == "developer":
			continue
		case item.Role == "user" || item.Role == "assistant":
			one.model, one.text = item.Role == "assistant", textOf(item.Content)
		default:
			return nil, false, fmt.Errorf("%w: an item is of no type that it has", errShape)
		}
		// A turn of the model's is as many items as it has parts.
		if last := len(list) - 1; one.model && last >= 0 && list[last].model {
			list[last].text, list[last].calls = list[last].text+one.text, append(list[last].calls, one.calls...)
			continue
		}
		list = append(list, one)
	}
	return list, len(r.Tools) > 0 && r.Tools[0].Type == "function" && r.Tools[0].Name != "" && r.Tools[0].Parameters != nil, nil
}

func outputText(text string) object {
	return object{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
}

// responsesItems are the output of a turn.
func responsesItems(t Turn, ids []string) []any {
	items := []any{}
	if t.Text != "" {
		items = append(items, object{"type": "message", "id": "msg_script", "role": "assistant", "status": "completed", "content": []any{outputText(t.Text)}})
	}
	for i, c := range t.Calls {
		items = append(items, object{"type": "function_call", "id": "fc_" + ids[i], "call_id": ids[i], "name": c.Name, "arguments": text(c.Arguments), "status": "completed"})
	}
	return items
}

func response(status string, output []any, tokens [2]int) object {
	r := object{"id": "resp_script", "object": "response", "created_at": 0, "status": status, "model": "script", "output": output, "error": nil, "incomplete_details": nil,
		"instructions": nil, "metadata": object{}, "parallel_tool_calls": true, "temperature": 1, "top_p": 1, "tool_choice": "auto", "tools": []any{}}
	if status == "completed" {
		r["usage"] = object{"input_tokens": tokens[0], "input_tokens_details": object{"cached_tokens": 0}, "output_tokens": tokens[1],
			"output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": tokens[0] + tokens[1]}
	}
	return r
}

func answerResponses(t Turn, ids []string, tokens [2]int) any {
	return response("completed", responsesItems(t, ids), tokens)
}

func streamResponses(t Turn, ids []string, tokens [2]int) []any {
	var events []any
	tell := func(kind string, e object) {
		e["type"], e["sequence_number"] = kind, len(events)
		events = append(events, e)
	}
	tell("response.created", object{"response": response("in_progress", []any{}, tokens)})
	for i, item := range responsesItems(t, ids) {
		whole := item.(object)
		begun := object{}
		for name, value := range whole {
			begun[name] = value
		}
		begun["status"] = "in_progress"
		if whole["type"] == "message" {
			begun["content"] = []any{}
			tell("response.output_item.added", object{"output_index": i, "item": begun})
			at := func(more object) object {
				more["item_id"], more["output_index"], more["content_index"] = whole["id"], i, 0
				return more
			}
			tell("response.content_part.added", at(object{"part": outputText("")}))
			for _, half := range halves(t.Text) {
				tell("response.output_text.delta", at(object{"delta": half, "logprobs": []any{}}))
			}
			tell("response.output_text.done", at(object{"text": t.Text, "logprobs": []any{}}))
			tell("response.content_part.done", at(object{"part": outputText(t.Text)}))
		} else {
			arguments := begun["arguments"].(string)
			begun["arguments"] = ""
			tell("response.output_item.added", object{"output_index": i, "item": begun})
			for _, half := range halves(arguments) {
				tell("response.function_call_arguments.delta", object{"item_id": whole["id"], "output_index": i, "delta": half})
			}
			tell("response.function_call_arguments.done", object{"item_id": whole["id"], "output_index": i, "name": whole["name"], "arguments": arguments})
		}
		tell("response.output_item.done", object{"output_index": i, "item": whole})
	}
	tell("response.completed", object{"response": answerResponses(t, ids, tokens)})
	return events
}
