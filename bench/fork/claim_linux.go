package fork

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"aether/engine"
)

const (
	tenant = "bench"
	// claimsReady is how many children are ready before each claim.
	claimsReady = 4
)

// measureClaim is from the claim of a child that is ready to its first byte, beside
// what a child takes that has waited as long with nothing around it: the floor under
// every claim.
func (b *bench) measureClaim(ctx context.Context, r *Report) (err error) {
	python, err := lookPath("python3")
	if err != nil {
		return err
	}
	pool, err := b.engine.Pool(tenant, templateName, engine.PoolOptions{Size: claimsReady})
	if err != nil {
		return err
	}
	bare, err := start(python, "-c", waitingProgram)
	if err != nil {
		return errors.Join(err, pool.Close(ctx))
	}
	defer func() { err = errors.Join(err, bare.end(), pool.Close(ctx)) }()
	b.say("claims: %d rounds", b.opts.Rounds)
	rows := []struct {
		name    string
		take    func(context.Context) (sample, error)
		samples []sample
	}{
		{name: rowClaim, take: func(ctx context.Context) (sample, error) { return claim(ctx, pool) }},
		{name: rowWaiting, take: func(ctx context.Context) (sample, error) { return bareLine(ctx, bare) }},
	}
	for round := range warmup + b.opts.Rounds {
		for _, i := range rand.Perm(len(rows)) {
			if err := awaitReady(ctx, pool); err != nil {
				return err
			}
			s, err := rows[i].take(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", rows[i].name, err)
			}
			if round >= warmup {
				rows[i].samples = append(rows[i].samples, s)
			}
		}
	}
	for _, row := range rows {
		r.Claim = append(r.Claim, newRow(row.name, row.samples))
	}
	return nil
}

// bareLine makes a child that waits and, after a while, has it answer.
func bareLine(ctx context.Context, p *program) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := p.forkWaiting(ctx); err != nil {
		return sample{}, err
	}
	time.Sleep(breath)
	w := startWatch()
	err := p.ask(ctx)
	w.lap("reply")
	return w.done(0), err
}

// awaitReady waits until the pool is full and so has nothing to do.
func awaitReady(ctx context.Context, pool *engine.Pool) error {
	for pool.Stats().Ready < claimsReady {
		if err := ctx.Err(); err != nil {
			return errors.Join(err, pool.Stats().Err)
		}
		time.Sleep(breath)
	}
	time.Sleep(breath)
	return nil
}

func claim(ctx context.Context, pool *engine.Pool) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w := startWatch()
	child, err := pool.Claim(ctx, tenant)
	w.lap("claim")
	if err != nil {
		return sample{}, err
	}
	return reply(ctx, w, child) // the pool has connected to it
}
