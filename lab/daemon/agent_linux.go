package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"aether/agent"
	"aether/engine"
	"aether/guest"
	"aether/lab"
	"aether/tool"
)

const (
	marked = "lab"
	// loopSteps is how many steps a run of the loop has whose cost is looked at.
	loopSteps = 10
)

// undoes measures a command that is taken back beside a fork of the same sandbox, in which a
// process lives.
func (b *bench) undoes(ctx context.Context) (_ []lab.Row, err error) {
	made, err := b.engine.Create(ctx, measurer, engine.CreateRequest{})
	if err != nil {
		return nil, err
	}
	id := made.ID
	defer func() { err = errors.Join(err, b.engine.Destroy(context.WithoutCancel(ctx), measurer, id)) }()
	client, release, err := b.engine.Guest(ctx, measurer, id)
	if err != nil {
		return nil, err
	}
	_, err = client.Start(ctx, guest.Cmd{Path: "sleep", Args: []string{"1000000"}})
	release()
	if err != nil {
		return nil, err
	}
	return b.rounds.Rows(ctx, []lab.Contender{b.rounds.Try(ctx, b.fork(id)), b.rounds.Try(ctx, b.takeBack(id))})
}

func (b *bench) fork(id string) lab.Contender {
	return lab.Contender{Name: rowFork, Take: func(ctx context.Context) (lab.Sample, error) {
		watch := lab.StartWatch()
		children, err := b.engine.Fork(ctx, measurer, id, engine.ForkRequest{Count: 1})
		watch.First("fork")
		for _, child := range children {
			err = errors.Join(err, b.engine.Destroy(ctx, measurer, child.ID))
		}
		return watch.Sample, err
	}}
}

// takeBack is a mark, a command and the way back, after which the mark is not needed.
func (b *bench) takeBack(id string) lab.Contender {
	work := inProcess(b.engine)
	return lab.Contender{Name: rowUndo, Take: func(ctx context.Context) (lab.Sample, error) {
		watch := lab.StartWatch()
		if _, err := b.engine.Mark(ctx, measurer, id, marked); err != nil {
			return lab.Sample{}, err
		}
		watch.Lap("mark")
		err := work.exec(ctx, id)
		watch.Lap("command")
		if err == nil {
			_, err = b.engine.Rollback(ctx, measurer, id, engine.RollbackRequest{Mark: marked})
		}
		watch.Lap("roll back")
		return watch.Done(), errors.Join(err, b.engine.DeleteMark(ctx, measurer, id, marked))
	}}
}

// steps measures what the loop of an agent takes for a step besides the model's turn and its
// call: a policy that is asked, a transcript that is written, the conversation.
func (b *bench) steps(ctx context.Context) (_ []lab.Row, err error) {
	model := &steady{}
	session, err := tool.New(tool.Options{Backend: tool.OfEngine(b.engine, measurer, nil), Own: true, Audit: func(c tool.Call) { model.called += time.Since(c.Began) }})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.Close(context.WithoutCancel(ctx))) }()
	return b.rounds.Rows(ctx, []lab.Contender{{Name: rowStep, Take: func(ctx context.Context) (lab.Sample, error) {
		*model = steady{}
		out, err := agent.Run(ctx, agent.Options{Session: session, Model: model, Task: "Measure.", Transcript: &written{}, Budget: agent.Budget{Steps: loopSteps + 1}})
		if err == nil && (!out.OK() || model.steps != loopSteps) {
			err = fmt.Errorf("the run ended after %d steps: %s", model.steps, out.Why)
		}
		return lab.Sample{First: model.between / loopSteps, Laps: []lab.Lap{{Name: "step", Took: model.between / loopSteps}}}, err
	}}})
}

// written is a transcript that nobody reads.
type written struct{ bytes int }

// Write implements io.Writer.
func (w *written) Write(part []byte) (int, error) {
	w.bytes += len(part)
	return len(part), nil
}

// steady is a model that makes the same call at every step, and looks how long it is until it is
// asked again.
type steady struct {
	steps           int
	answered        time.Time
	called, between time.Duration
}

// Format implements agent.Model.
func (*steady) Format() tool.Format { return tool.Anthropic }

// Next implements agent.Model.
func (s *steady) Next(_ context.Context, c agent.Conversation) (agent.Reply, error) {
	if !s.answered.IsZero() {
		s.between += time.Since(s.answered) - s.called
		s.steps++
	}
	defer func() { s.called, s.answered = 0, time.Now() }()
	if c.Step > loopSteps {
		return agent.Reply{Message: json.RawMessage(`{"role":"assistant","content":[{"type":"text","text":"Done."}]}`), Text: "Done."}, nil
	}
	const arguments = `{"sandbox":"here","path":"/tmp"}`
	return agent.Reply{Message: json.RawMessage(`{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"file_stat","input":` + arguments + `}]}`),
		Calls: []tool.Request{{ID: "1", Name: "file_stat", Arguments: json.RawMessage(arguments)}}}, nil
}
