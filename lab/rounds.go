package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Contender is measured beside others.
type Contender struct {
	Name string
	// Take measures once. What a turn leaves is removed before it returns.
	Take func(context.Context) (Sample, error)
	// Skipped is why it takes no turn.
	Skipped string
	// Turns bounds how many it takes of those that count, if it is not zero.
	Turns int
}

// Skip is a contender that cannot take part.
func Skip(name string, why error) Contender { return Contender{Name: name, Skipped: why.Error()} }

// Rounds is how often contenders take turns.
type Rounds struct {
	Count int
	// Warmup rounds fill caches and are not counted.
	Warmup int
	// Breath lets what the kernel removes after a turn settle, so that it is not
	// charged to whoever comes next.
	Breath time.Duration
	// Patience bounds a turn, if it is not zero.
	Patience time.Duration
	// Budget is how long a contender may take in all before it takes no more turns, if it
	// is not zero. It takes a few whatever it says, or one if they take thrice as long.
	Budget time.Duration
	// Seen, if it is not nil, is told of every sample that counts when it is taken.
	Seen func(contender, round int, s Sample) error
	// Failed, if it is not nil, is told of a contender that failed; that one takes no more
	// turns, and the others go on.
	Failed func(contender int, err error) error
}

// fewTurns are taken whatever the budget.
const fewTurns = 3

// Measure gives every contender its turn in each round, in an order that changes,
// so that whatever the host does meanwhile falls on all alike.
func (r Rounds) Measure(ctx context.Context, contenders []Contender) ([][]Sample, error) {
	samples := make([][]Sample, len(contenders))
	spent := make([]time.Duration, len(contenders))
	out := make([]bool, len(contenders))
	for round := range r.Warmup + r.Count {
		for _, i := range rand.Perm(len(contenders)) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if out[i] || r.finished(contenders[i], len(samples[i]), spent[i]) {
				continue
			}
			start := time.Now()
			s, err := r.take(ctx, contenders[i])
			spent[i] += time.Since(start)
			switch {
			case err != nil && (r.Failed == nil || ctx.Err() != nil):
				return nil, fmt.Errorf("%s: round %d: %w", contenders[i].Name, round, err)
			case err != nil:
				out[i], err = true, r.Failed(i, err)
			case round >= r.Warmup:
				samples[i] = append(samples[i], s)
				if r.Seen != nil {
					err = r.Seen(i, round-r.Warmup, s)
				}
			}
			if err != nil {
				return nil, err
			}
			time.Sleep(r.Breath)
		}
	}
	return samples, nil
}

// finished says whether a contender takes no more turns.
func (r Rounds) finished(c Contender, taken int, spent time.Duration) bool {
	late := r.Budget > 0 && (taken >= fewTurns && spent > r.Budget || taken >= 1 && spent > 3*r.Budget)
	return c.Skipped != "" || c.Turns > 0 && taken >= c.Turns || late
}

// Rows measures contenders and makes a row of each.
func (r Rounds) Rows(ctx context.Context, contenders []Contender) ([]Row, error) {
	samples, err := r.Measure(ctx, contenders)
	if err != nil {
		return nil, err
	}
	rows := make([]Row, len(contenders))
	for i, c := range contenders {
		if rows[i] = (Row{Name: c.Name, Skipped: c.Skipped}); c.Skipped == "" {
			rows[i] = NewRow(c.Name, samples[i])
		}
	}
	return rows, nil
}

// Try has a contender take one turn; one that fails is skipped, with the reason.
func (r Rounds) Try(ctx context.Context, c Contender) Contender {
	if c.Skipped != "" {
		return c
	}
	if _, err := r.take(ctx, c); err != nil {
		return Skip(c.Name, err)
	}
	return c
}

func (r Rounds) take(ctx context.Context, c Contender) (Sample, error) {
	if r.Patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Patience)
		defer cancel()
	}
	return c.Take(ctx)
}
