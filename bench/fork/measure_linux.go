package fork

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"aether/engine"
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
	start := time.Now()
	r = Report{Driver: driver.Info().Name, Rounds: opts.Rounds}
	if r.LoadBefore, err = load(); err != nil {
		return r, err
	}
	b := &bench{opts: opts, driver: driver, engine: engine.New(engine.Options{}), start: start}
	defer func() { err = errors.Join(err, b.close()) }()
	for _, step := range []func(context.Context, *Report) error{b.measureFirst, b.measureClaim, b.measureCrowds} {
		if err := step(ctx, &r); err != nil {
			return r, err
		}
	}
	r.TookSeconds = time.Since(start).Seconds()
	if r.LoadAfter, err = load(); err != nil {
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
	start  time.Time
	undo   []func() error
}

func (b *bench) close() error {
	var errs []error
	for i := len(b.undo) - 1; i >= 0; i-- {
		errs = append(errs, b.undo[i]())
	}
	return errors.Join(append(errs, b.engine.Close(context.Background()))...)
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.opts.Progress, "%4.0fs  %s\n", time.Since(b.start).Seconds(), fmt.Sprintf(format, args...))
}

// turn is what one row does in each round, or why it does nothing.
type turn struct {
	name    string
	take    func(context.Context) (sample, error)
	skipped string
	forks   bool // it has a source that stands still
}

// measureFirst gives every row its turn in each round, in an order that changes,
// so that whatever the host does meanwhile falls on all alike.
func (b *bench) measureFirst(ctx context.Context, r *Report) error {
	b.say("first replies: preparing sources")
	turns, err := b.turns(ctx)
	if err != nil {
		return err
	}
	b.say("first replies: %d rounds of %d rows", b.opts.Rounds, len(turns))
	samples, err := b.interleave(ctx, turns)
	if err != nil {
		return err
	}
	for i, t := range turns {
		if t.skipped != "" {
			r.First = append(r.First, Row{Name: t.name, Skipped: t.skipped})
			continue
		}
		r.First = append(r.First, newRow(t.name, samples[i]))
		if t.forks {
			r.Pause = append(r.Pause, pauses(t.name, samples[i]))
		}
	}
	return nil
}

func (b *bench) interleave(ctx context.Context, turns []turn) ([][]sample, error) {
	samples := make([][]sample, len(turns))
	for round := range warmup + b.opts.Rounds {
		for _, i := range rand.Perm(len(turns)) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if turns[i].take == nil {
				continue
			}
			s, err := turns[i].takeBounded(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: round %d: %w", turns[i].name, round, err)
			}
			if round >= warmup {
				samples[i] = append(samples[i], s)
			}
			time.Sleep(breath)
		}
	}
	return samples, nil
}

func (t turn) takeBounded(ctx context.Context) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return t.take(ctx)
}

// load is the load average of the last minute.
func load() (float64, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	return strconv.ParseFloat(first, 64)
}
