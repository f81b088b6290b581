package fork

import (
	"context"
	"errors"
	"slices"
	"time"

	"aether/engine"
	"aether/lab"
	"aether/sandbox"
)

const (
	// warmup rounds fill caches and are not counted.
	warmup = 2
	// breath lets what the kernel removes after a sandbox's end settle, so that it
	// is not charged to whoever comes next.
	breath = 10 * time.Millisecond
)

// Measure runs the whole benchmark. Errors: Unsupported if the driver cannot fork.
func Measure(ctx context.Context, driver sandbox.Driver, opts Options) (r Report, err error) {
	if err := opts.Validate(); err != nil {
		return r, err
	}
	opts = opts.withDefaults()
	r.Driver, r.Rounds = driver.Info().Name, opts.Rounds
	b := &bench{opts: opts, driver: driver, engine: engine.New(engine.Options{}), say: opts.Progress}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := r.Watch(func() error { return b.measure(ctx, &r) }); err != nil {
		return r, err
	}
	r.Targets = judge(r)
	return r, nil
}

// bench is one run.
type bench struct {
	opts   Options
	driver sandbox.Driver
	engine *engine.Engine
	say    *lab.Progress
	undo   []func() error
}

func (b *bench) close() error {
	var errs []error
	for i := len(b.undo) - 1; i >= 0; i-- {
		errs = append(errs, b.undo[i]())
	}
	return errors.Join(append(errs, b.engine.Close(context.Background()))...)
}

func (b *bench) measure(ctx context.Context, r *Report) error {
	for _, step := range []func(context.Context, *Report) error{b.measureFirst, b.measureClaim, b.measureBusy, b.measureCrowds} {
		if err := step(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// rounds is how often everybody takes turns.
func (b *bench) rounds() lab.Rounds {
	return lab.Rounds{Count: b.opts.Rounds, Warmup: warmup, Breath: breath, Patience: patience}
}

// measureFirst is from the call to the first reply of an interpreter.
func (b *bench) measureFirst(ctx context.Context, r *Report) error {
	b.say.Say("first replies: preparing sources")
	turns, err := b.turns(ctx)
	if err != nil {
		return err
	}
	b.say.Say("first replies: %d rounds of %d rows", b.opts.Rounds, len(turns))
	samples, err := b.rounds().Measure(ctx, turns)
	if err != nil {
		return err
	}
	for i, t := range turns {
		if t.Skipped != "" {
			r.First = append(r.First, lab.Row{Name: t.Name, Skipped: t.Skipped})
			continue
		}
		r.First = append(r.First, lab.NewRow(t.Name, samples[i]))
		if slices.Contains(sourceRows, t.Name) {
			r.Pause = append(r.Pause, lab.Pauses(t.Name, samples[i]))
		}
	}
	return nil
}
