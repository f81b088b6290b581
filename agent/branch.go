package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"aether/sandbox"
	"aether/tool"
)

func (b Branch) check() error {
	switch {
	case b.Count < 0 || b.Count > maxBranch:
		return sandbox.Invalidf("branch", "%d is not between 0 and %d", b.Count, maxBranch)
	case b.Count > 1 && strings.TrimSpace(b.Score) == "":
		return &sandbox.Error{Class: sandbox.Invalid, Field: "score", Reason: "branches need a command that scores them"}
	case b.Steps < 0 || slices.ContainsFunc(b.At, func(step int) bool { return step < 1 }):
		return sandbox.Invalidf("branch-at", "steps are counted from 1")
	}
	return nil
}

// at says whether lines are forked before a step.
func (b Branch) at(step int) bool {
	if b.Count < 2 {
		return false
	}
	return slices.Contains(b.At, step) || len(b.At) == 0 && step == 1
}

// note is how a model is told that it is one of several.
func note(name string, i, count int) string {
	return fmt.Sprintf("The sandbox was forked: this is branch %s, attempt %d of %d that go on side by side without knowing of each other. The best is kept. Take an approach that the others are not likely to take.", name, i, count)
}

// branch forks a line, has the forks go on side by side and gives the best of them. The
// others have ended, and so has the line itself.
func (l *line) branch(ctx context.Context) (*line, error) {
	forks, err := l.fork(ctx)
	if err != nil {
		return nil, err
	}
	var working sync.WaitGroup
	for _, f := range forks {
		working.Go(func() { f.err = f.try(ctx) })
	}
	working.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	best, err := choose(forks)
	if err != nil {
		return nil, err
	}
	if best.why == "" {
		best.score = nil // it goes on, and is scored again
	}
	for _, f := range forks {
		if f == best {
			l.run.script.write(Entry{Kind: Kept, Line: f.name, Step: f.step})
			continue
		}
		e := Entry{Kind: Dropped, Line: f.name, Step: f.step}
		if f.err != nil {
			e.Why = clip(f.err.Error(), 300)
		}
		l.run.script.write(e)
		err = errors.Join(err, l.run.end(ctx, f.sandbox))
	}
	return best, errors.Join(err, l.run.end(ctx, l.sandbox))
}

// fork forks the sandbox and the conversation of a line.
func (l *line) fork(ctx context.Context) ([]*line, error) {
	r, began := l.run, time.Now()
	made, err := do[tool.Sandboxes](ctx, r, "sandbox_fork", r.lasting(map[string]any{"sandbox": l.sandbox, "count": r.Branch.Count}))
	if err != nil {
		return nil, err
	}
	r.own(made.Sandboxes...)
	e := Entry{Kind: Forked, Line: l.name, Step: l.step, TookMS: since(began)}
	var forks []*line
	for i, one := range made.Sandboxes {
		name := strconv.Itoa(i + 1)
		if l.name != mainLine {
			name = l.name + "." + name
		}
		f := &line{run: r, name: name, sandbox: one.ID, step: l.step, forkedAt: l.step + 1}
		f.messages = l.told(note(name, i+1, len(made.Sandboxes)))
		forks = append(forks, f)
		e.Lines, e.Sandboxes = append(e.Lines, name), append(e.Sandboxes, one.ID)
	}
	r.script.write(e)
	return forks, nil
}

// told is the conversation of a line in which something more was said. It is always our turn
// when a line is forked.
func (l *line) told(text string) []json.RawMessage {
	return append(slices.Clone(l.messages), say(l.run.Model.Format(), nil, text)...)
}

// try has a fork go on until it is scored.
func (l *line) try(ctx context.Context) error {
	for l.why == "" && (l.run.Branch.Steps == 0 || l.step-l.forkedAt+1 < l.run.Branch.Steps) {
		if err := l.next(ctx); err != nil {
			return err
		}
	}
	var err error
	l.score, err = l.rate(ctx)
	return err
}

// choose gives the best of those that were scored: what passed, then the highest number,
// then the fewest tokens, then the first. Errors: that of the first, if none was scored.
func choose(forks []*line) (*line, error) {
	scored := slices.DeleteFunc(slices.Clone(forks), func(f *line) bool { return f.err != nil || f.score == nil })
	if len(scored) == 0 {
		return nil, fmt.Errorf("agent: every branch failed, the first: %w", forks[0].err)
	}
	return slices.MinFunc(scored, func(a, b *line) int {
		if a.score.Passed != b.score.Passed {
			if a.score.Passed {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.score.Number, a.score.Number), cmp.Compare(a.tokens.sum(), b.tokens.sum()))
	}), nil
}

// Score is what the command that scores said of a line.
type Score struct {
	// Passed says that it ended with status 0.
	Passed bool `json:"passed"`
	// Number is the last line that it wrote, where that is a number, or else 1 if it passed
	// and 0 if it did not.
	Number float64 `json:"number"`
}

// commandSeconds bounds a command of the run's own.
const commandSeconds = 600

// rate runs the command that scores in the sandbox of a line. It is believed what it says:
// whoever lets a model change what scores it is deceived.
func (l *line) rate(ctx context.Context) (*Score, error) {
	began := time.Now()
	ran, err := do[tool.Ran](ctx, l.run, "command_run", map[string]any{"sandbox": l.sandbox, "command": l.run.Branch.Score, "timeout_s": commandSeconds})
	if err != nil {
		return nil, err
	}
	s := scoreOf(ran.ExitCode != nil && *ran.ExitCode == 0, ran.Stdout.Text)
	l.run.script.write(Entry{Kind: Scored, Line: l.name, Step: l.step, TookMS: since(began), Score: &s})
	return &s, nil
}

func scoreOf(passed bool, stdout string) Score {
	s := Score{Passed: passed}
	if passed {
		s.Number = 1
	}
	text := strings.TrimSpace(stdout)
	last := strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
	if n, err := strconv.ParseFloat(last, 64); err == nil && !math.IsNaN(n) && !math.IsInf(n, 0) {
		s.Number = n
	}
	return s
}
