package agent

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"strings"
	"sync"

	"aether/sandbox"
	"aether/tool"
)

// here is the name by which models know the sandbox of their line.
const here = "here"

// usual are the tools that models have unless a Policy says otherwise.
var usual = []string{"command_*", "code_*", "file_*"}

// within are the tools that a Policy can allow: those that are about one sandbox and leave
// it where it is. Making, forking and ending sandboxes is the run's.
var within = append([]string{"network_get", "network_set", "port_expose", "sandbox_get", "sandbox_metrics"}, usual...)

// carrying are tools that reach outside of sandboxes, which a run has no use for.
var carrying = []string{"file_upload", "file_download"}

// has says whether models can have a tool at all.
func has(name string) bool { return matches(within, name) && !matches(carrying, name) }

// Policy says what a model may do. It is asked before every call. What the sandbox can
// reach is said when it is made, and changed by network_set alone, which has to be
// allowed by name.
type Policy struct {
	// Tools are names of tools, or patterns as command_*, that may be called: commands,
	// code and files, if there are none.
	Tools []string
	// Ask are those for which a person has to say yes each time.
	Ask []string
	// Person is asked, one question at a time. Nil says no.
	Person func(ctx context.Context, line string, call tool.Request) (bool, error)
}

// judge is a Policy at work.
type judge struct {
	Policy
	tools []*tool.Tool
	turn  sync.Mutex // of the person
}

func newJudge(p Policy, tools []*tool.Tool) (*judge, error) {
	if len(p.Tools) == 0 {
		p.Tools = usual
	}
	j := &judge{Policy: p}
	for _, t := range tools {
		if has(t.Name) && matches(p.Tools, t.Name) {
			j.tools = append(j.tools, t)
		}
	}
	for _, pattern := range slices.Concat(p.Tools, p.Ask) {
		if pattern != undoTool && !slices.ContainsFunc(tools, func(t *tool.Tool) bool { return has(t.Name) && matches([]string{pattern}, t.Name) }) {
			return nil, sandbox.Invalidf("tools", "%.40q is none that a model can have", pattern)
		}
	}
	return j, nil
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return err == nil && ok
	})
}

// allow says why a call must not be made, or nothing.
func (j *judge) allow(ctx context.Context, line string, call tool.Request) (*tool.Failure, error) {
	if call.Name != undoTool && !slices.ContainsFunc(j.tools, func(t *tool.Tool) bool { return t.Name == call.Name }) {
		return denial("there is no tool "+clip(call.Name, 64)+" for you", "call one of the list"), nil
	}
	if !matches(j.Ask, call.Name) {
		return nil, nil
	}
	if j.Person == nil {
		return denial("a person would have to say yes, and none is there", "do without"), nil
	}
	j.turn.Lock()
	defer j.turn.Unlock()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	yes, err := j.Person(ctx, line, call)
	if err != nil || yes {
		return nil, err
	}
	return denial("a person said no", "do something else"), nil
}

func denial(reason, remedy string) *tool.Failure {
	return &tool.Failure{Class: sandbox.Denied.String(), Reason: reason, Remedy: remedy}
}

// address gives a call the sandbox of its line. A call about any other is refused.
func address(call tool.Request, id string) (json.RawMessage, *tool.Failure) {
	var arguments map[string]json.RawMessage
	if err := json.Unmarshal(call.Arguments, &arguments); err != nil {
		return nil, &tool.Failure{Class: sandbox.Invalid.String(), Field: "arguments", Reason: "they are no object of JSON", Remedy: "correct them, and call again"}
	}
	if arguments == nil {
		arguments = map[string]json.RawMessage{}
	}
	if named, ok := arguments["sandbox"]; ok && string(named) != `"`+here+`"` {
		return nil, denial("you have one sandbox, which is "+here, "name it so")
	}
	arguments["sandbox"] = encode(id)
	return encode(arguments), nil
}

// told is an answer as the model of a line is told it: its sandbox is here.
func told(r tool.Result, id string) (tool.Result, error) {
	var from any = r.Value
	if r.Failure != nil {
		from = r.Failure
	}
	text, err := json.Marshal(from)
	if err != nil {
		return r, err
	}
	renamed := []byte(strings.ReplaceAll(string(text), id, here))
	if r.Failure == nil {
		return tool.Result{Value: json.RawMessage(renamed)}, nil
	}
	var f tool.Failure
	err = json.Unmarshal(renamed, &f)
	return tool.Result{Failure: &f}, err
}
