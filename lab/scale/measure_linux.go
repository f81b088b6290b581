package scale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"aether/lab"
	"aether/sandbox"
)

// Measure runs the whole benchmark. A level that the host or the driver refuses is
// skipped with the reason, and so are those above it.
func Measure(ctx context.Context, driver sandbox.Driver, opts Options) (r Report, err error) {
	if err := opts.Validate(); err != nil {
		return r, err
	}
	opts = opts.withDefaults()
	r.Driver, r.Rounds, r.HostNetwork = driver.Info().Name, opts.Rounds, opts.HostNetwork
	c := &crowd{opts: opts, driver: driver}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := r.Watch(func() error { return c.measure(ctx, &r) }); err != nil {
		return r, err
	}
	r.Targets = judge(r)
	return r, nil
}

func (c *crowd) measure(ctx context.Context, r *Report) error {
	if err := c.open(ctx); err != nil {
		return err
	}
	if err := c.up(ctx, r); err != nil {
		return err
	}
	return c.down(ctx, r)
}

// up makes ever more sandboxes and measures at each level.
func (c *crowd) up(ctx context.Context, r *Report) error {
	levels := c.opts.levels()
	for i, n := range levels {
		c.opts.Progress.Say("%d alive", n)
		l := Level{Alive: n}
		var refused error
		if l.MakeUS, refused = c.grow(ctx, n); refused != nil {
			if err := ctx.Err(); err != nil {
				return err
			}
			for _, n := range levels[i:] {
				r.Levels = append(r.Levels, Level{Alive: n, Skipped: fmt.Sprintf("after %d: %v", len(c.alive), refused)})
			}
			return nil
		}
		var err error
		if l.Each, err = c.weigh(ctx); err != nil {
			return err
		}
		if err := c.sample(ctx, n); err != nil {
			return err
		}
		r.Levels = append(r.Levels, l)
	}
	return nil
}

// down measures again at each level while the sandboxes are ended.
func (c *crowd) down(ctx context.Context, r *Report) error {
	for i, l := range slices.Backward(r.Levels) {
		if l.Skipped != "" {
			continue
		}
		c.opts.Progress.Say("%d alive, on the way down", l.Alive)
		if ended, took := len(c.alive)-l.Alive, time.Now(); ended > 0 {
			if err := c.shrink(ctx, l.Alive); err != nil {
				return err
			}
			if r.Ending == nil {
				r.Ending = &Ending{Sandboxes: l.Alive + ended, Workers: workers, EachUS: lab.Micros(time.Since(took)) / float64(ended)}
			}
		}
		if err := c.sample(ctx, l.Alive); err != nil {
			return err
		}
		s := c.samples[l.Alive]
		r.Levels[i].Life, r.Levels[i].Exec, r.Levels[i].Fork = s.life.row("life"), s.exec.row("exec"), s.fork.row("fork")
	}
	return nil
}
