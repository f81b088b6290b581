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
}

// Measure gives every contender its turn in each round, in an order that changes,
// so that whatever the host does meanwhile falls on all alike.
func (r Rounds) Measure(ctx context.Context, contenders []Contender) ([][]Sample, error) {
	samples := make([][]Sample, len(contenders))
	for round := range r.Warmup + r.Count {
		for _, i := range rand.Perm(len(contenders)) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if contenders[i].Skipped != "" {
				continue
			}
			s, err := r.take(ctx, contenders[i])
			if err != nil {
				return nil, fmt.Errorf("%s: round %d: %w", contenders[i].Name, round, err)
			}
			if round >= r.Warmup {
				samples[i] = append(samples[i], s)
			}
			time.Sleep(r.Breath)
		}
	}
	return samples, nil
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
