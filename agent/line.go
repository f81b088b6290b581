package agent

import (
	"context"
	"encoding/json"
	"time"

	"aether/tool"
)

// line is one sandbox and one conversation of a run.
type line struct {
	run      *run
	name     string
	sandbox  string
	messages []json.RawMessage
	step     int // that were taken
	tokens   Tokens
	marks    []string // before the last calls, oldest first
	marked   int
	forkedAt int    // the step before which it was made, or forked
	why      string // it has ended, if it has
	answer   string
	score    *Score
	err      error
}

// next has the model take its turn, and makes its calls.
func (l *line) next(ctx context.Context) error {
	r := l.run
	switch {
	case l.step >= r.Budget.Steps:
		l.why = NoSteps
		return nil
	case r.Budget.Tokens > 0 && r.spent() >= r.Budget.Tokens:
		l.why = NoTokens
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	l.step++
	began := time.Now()
	turn := Conversation{Line: l.name, Step: l.step, System: r.system(), Tools: r.tools, Messages: l.messages}
	if r.Hear != nil {
		turn.Hear = func(text string) { r.Hear(l.name, text) }
	}
	reply, err := r.Model.Next(ctx, turn)
	if err != nil {
		return err
	}
	r.spend(reply.Tokens)
	l.tokens = l.tokens.plus(reply.Tokens)
	r.script.write(Entry{Kind: Replied, Line: l.name, Step: l.step, TookMS: since(began), Reply: &reply})
	l.messages = append(l.messages, reply.Message)
	if len(reply.Calls) == 0 {
		l.why, l.answer = Finished, reply.Text
		return nil
	}
	answers := make([]json.RawMessage, len(reply.Calls))
	for i, call := range reply.Calls {
		if answers[i], err = l.call(ctx, call); err != nil {
			return err
		}
	}
	l.messages = append(l.messages, say(r.Model.Format(), answers, "")...)
	return nil
}

func since(began time.Time) float64 { return float64(time.Since(began).Microseconds()) / 1000 }

// call makes a call that the policy allows, and gives its answer in the model's format. What
// goes wrong about the call, the answer says; errors are those that end the line.
func (l *line) call(ctx context.Context, call tool.Request) (json.RawMessage, error) {
	began, result, mark := time.Now(), tool.Result{}, ""
	refused, err := l.run.judge.allow(ctx, l.name, call)
	switch {
	case err != nil:
		return nil, err
	case refused != nil:
		result.Failure = refused
	case call.Name == undoTool:
		result, mark = l.undo(ctx, call)
	default:
		result, mark, err = l.make(ctx, call)
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	if result, err = told(result, l.sandbox); err != nil {
		return nil, err
	}
	l.run.script.write(Entry{Kind: Called, Line: l.name, Step: l.step, TookMS: since(began), Call: &call, Result: encode(result), Failed: result.Failure != nil, Mark: mark})
	return result.Message(l.run.Model.Format(), call)
}

// make makes a call, after a mark where calls are to be undone.
func (l *line) make(ctx context.Context, call tool.Request) (result tool.Result, mark string, err error) {
	arguments, refused := address(call, l.sandbox)
	if refused != nil {
		return tool.Result{Failure: refused}, "", nil
	}
	if l.run.Checkpoint {
		if mark, err = l.setMark(ctx); err != nil {
			return result, "", err
		}
	}
	return l.run.session.Do(ctx, call.Name, arguments), mark, nil
}
