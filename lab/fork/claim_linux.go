package fork

import (
	"context"
	"errors"
	"time"

	"aether/engine"
	"aether/lab"
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
	b.say.Say("claims: %d rounds", b.opts.Rounds)
	ready := func(take func(context.Context) (lab.Sample, error)) func(context.Context) (lab.Sample, error) {
		return func(ctx context.Context) (lab.Sample, error) {
			if err := awaitReady(ctx, pool); err != nil {
				return lab.Sample{}, err
			}
			return take(ctx)
		}
	}
	r.Claim, err = b.rounds().Rows(ctx, []lab.Contender{
		{Name: rowClaim, Take: ready(func(ctx context.Context) (lab.Sample, error) { return claim(ctx, pool) })},
		{Name: rowWaiting, Take: ready(func(ctx context.Context) (lab.Sample, error) { return bareLine(ctx, bare) })},
	})
	return err
}

// bareLine makes a child that waits and, after a while, has it answer.
func bareLine(ctx context.Context, p *program) (lab.Sample, error) {
	if err := p.forkWaiting(ctx); err != nil {
		return lab.Sample{}, err
	}
	time.Sleep(breath)
	w := lab.StartWatch()
	err := p.ask(ctx)
	w.Lap("reply")
	return w.Done(), err
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

func claim(ctx context.Context, pool *engine.Pool) (lab.Sample, error) {
	w := lab.StartWatch()
	child, err := pool.Claim(ctx, tenant)
	w.Lap("claim")
	if err != nil {
		return lab.Sample{}, err
	}
	return reply(ctx, w, child) // the pool has connected to it
}
