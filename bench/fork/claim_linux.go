package fork

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aether/engine"
)

const (
	tenant = "bench"
	// claimsReady is how many children are ready before each claim.
	claimsReady = 4
)

// measureClaim is from the claim of a child that is ready to its first byte.
func (b *bench) measureClaim(ctx context.Context, r *Report) error {
	pool, err := b.engine.Pool(tenant, templateName, engine.PoolOptions{Size: claimsReady})
	if err != nil {
		return err
	}
	b.say("claims: %d rounds", b.opts.Rounds)
	var samples []sample
	for round := range warmup + b.opts.Rounds {
		if err := awaitReady(ctx, pool); err != nil {
			return err
		}
		s, err := claim(ctx, pool)
		if err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		if round >= warmup {
			samples = append(samples, s)
		}
	}
	r.Claim = append(r.Claim, newRow(rowClaim, samples))
	return pool.Close(ctx)
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
