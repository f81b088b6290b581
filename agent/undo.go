package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"aether/sandbox"
	"aether/tool"
)

// undoTool is the one tool that is the run's own.
const undoTool = "undo"

const undoText = "Undo your last calls: the sandbox with its files and processes is again what it was before them."

// maxMarks is how many calls can be undone: a sandbox has at most one mark more.
const maxMarks = 7

// project tells of the tools of a run in a format.
func project(f tool.Format, tools []*tool.Tool, undo bool) (json.RawMessage, error) {
	list, err := tool.Project(f, tools)
	if err != nil || !undo {
		return list, err
	}
	count := map[string]any{"type": "integer", "description": "how many calls, 1 to 7"}
	schema := map[string]any{"type": "object", "properties": map[string]any{"calls": count}, "required": []string{"calls"}, "additionalProperties": false}
	switch f {
	case tool.Gemini:
		var groups []map[string][]any
		if err := json.Unmarshal(list, &groups); err != nil {
			return nil, err
		}
		count["type"] = "INTEGER"
		groups[0]["functionDeclarations"] = append(groups[0]["functionDeclarations"], map[string]any{"name": undoTool, "description": undoText,
			"parameters": map[string]any{"type": "OBJECT", "properties": map[string]any{"calls": count}, "required": []string{"calls"}}})
		return json.Marshal(groups)
	case tool.OpenAI:
		return appendJSON(list, map[string]any{"type": "function", "function": map[string]any{"name": undoTool, "description": undoText, "parameters": schema, "strict": true}})
	case tool.OpenAIResponses:
		return appendJSON(list, map[string]any{"type": "function", "name": undoTool, "description": undoText, "parameters": schema, "strict": true})
	}
	return appendJSON(list, map[string]any{"name": undoTool, "description": undoText, "input_schema": schema})
}

func appendJSON(list json.RawMessage, one any) (json.RawMessage, error) {
	var all []any
	if err := json.Unmarshal(list, &all); err != nil {
		return nil, err
	}
	return json.Marshal(append(all, one))
}

// setMark marks the sandbox before a call, and forgets the oldest of too many marks.
func (l *line) setMark(ctx context.Context) (string, error) {
	for len(l.marks) >= maxMarks {
		if err := l.unmark(ctx, 0); err != nil {
			return "", err
		}
	}
	l.marked++
	name := fmt.Sprintf("call-%d", l.marked)
	if _, err := do[tool.Mark](ctx, l.run, "sandbox_mark", map[string]any{"sandbox": l.sandbox, "name": name}); err != nil {
		return "", err
	}
	l.marks = append(l.marks, name)
	return name, nil
}

// unmark deletes a mark. One that has ended is as good.
func (l *line) unmark(ctx context.Context, i int) error {
	err := l.run.session.Backend().DeleteMark(ctx, l.sandbox, l.marks[i])
	if err != nil && sandbox.ClassOf(err) != sandbox.NotFound {
		return err
	}
	l.marks = append(l.marks[:i:i], l.marks[i+1:]...)
	return nil
}

// undo rolls the sandbox back to before its last calls.
func (l *line) undo(ctx context.Context, call tool.Request) (tool.Result, string) {
	var in struct {
		Calls int `json:"calls"`
	}
	if err := json.Unmarshal(call.Arguments, &in); err != nil || in.Calls < 1 || in.Calls > len(l.marks) {
		return tool.Result{Failure: &tool.Failure{Class: sandbox.Invalid.String(), Field: "calls",
			Reason: fmt.Sprintf("%d calls can be undone", len(l.marks)), Remedy: "undo that many, or fewer"}}, ""
	}
	at := len(l.marks) - in.Calls
	mark := l.marks[at]
	if _, err := do[tool.Sandbox](ctx, l.run, "sandbox_rollback", map[string]any{"sandbox": l.sandbox, "mark": mark}); err != nil {
		return tool.Result{Failure: failureOf(err)}, ""
	}
	l.run.script.write(Entry{Kind: RolledBack, Line: l.name, Step: l.step, Mark: mark})
	for len(l.marks) > at {
		if err := l.unmark(ctx, len(l.marks)-1); err != nil {
			return tool.Result{Failure: failureOf(err)}, mark
		}
	}
	return tool.Result{Value: tool.Done{Done: fmt.Sprintf("%d calls are undone", in.Calls)}}, mark
}

func failureOf(err error) *tool.Failure {
	return &tool.Failure{Class: sandbox.ClassOf(err).String(), Reason: clip(err.Error(), 300), Remedy: "do without"}
}
