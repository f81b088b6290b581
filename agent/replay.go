package agent

import (
	"context"
	"fmt"

	"aether/sandbox"
	"aether/tool"
)

// replay is a model that says again what a transcript has.
type replay struct {
	format  tool.Format
	replies map[turn]Reply
}

type turn struct {
	line string
	step int
}

// Replay is a model that answers as that of a transcript did, turn for turn, whatever the
// calls now give. Errors: Invalid for what is no transcript.
func Replay(entries []Entry) (Model, error) {
	if err := checkStart(entries); err != nil {
		return nil, err
	}
	f, err := tool.ParseFormat(string(entries[0].Run.Format))
	if err != nil {
		return nil, err
	}
	r := &replay{f, map[turn]Reply{}}
	for _, e := range entries {
		if e.Kind == Replied && e.Reply != nil {
			r.replies[turn{e.Line, e.Step}] = *e.Reply
		}
	}
	return r, nil
}

// Format implements Model.
func (r *replay) Format() tool.Format { return r.format }

// Next implements Model.
func (r *replay) Next(_ context.Context, c Conversation) (Reply, error) {
	said, ok := r.replies[turn{c.Line, c.Step}]
	if !ok {
		return Reply{}, &sandbox.Error{Class: sandbox.NotFound, Reason: fmt.Sprintf("the transcript has no step %d of line %.40q", c.Step, c.Line), Remedy: "replay with the options of that run"}
	}
	return said, nil
}
