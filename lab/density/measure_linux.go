package density

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"time"

	"aether/lab"
	"aether/lab/run"
	"aether/profile"
	"aether/sandbox"
)

var axis = profile.Density.String()

// makers make and end sandboxes at once.
const makers = 2

// Measure has every system keep sandboxes alive, one system after the other, in rounds.
// Done rounds are not measured again.
func Measure(ctx context.Context, systems []lab.System, opts Options, to *run.Store) error {
	opts.Progress = cmp.Or(opts.Progress, lab.NewProgress(nil))
	for round := range opts.Rounds {
		for _, s := range systems {
			c := &crowd{opts: opts, system: s, round: round, to: to}
			err := to.Step(fmt.Sprintf("density of %s, round %d", s.Name, round), opts.Progress, func() error {
				err := c.measure(ctx)
				if err != nil && ctx.Err() == nil {
					err = to.Miss(s.Name, axis, run.Memory, err.Error())
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// crowd is sandboxes of one system that live and do nothing.
type crowd struct {
	opts   Options
	system lab.System
	round  int
	to     *run.Store

	before    lab.Memory
	processes lab.Processes // before there was anybody
	own       int64         // KiB of this program then
	alive     []sandbox.Instance
}

func (c *crowd) measure(ctx context.Context) (err error) {
	// What the first sandbox of a program makes for all later ones is not theirs.
	one, err := c.system.Driver.Create(ctx, sandbox.Spec{})
	if err != nil {
		return err
	}
	if err := one.Destroy(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	if c.before, err = lab.SettledWithin(ctx, c.opts.Settle, lab.Memory.Available); err != nil {
		return err
	}
	if c.processes, err = lab.ReadProcesses(); err != nil {
		return err
	}
	if c.own, err = lab.ReadPSS(os.Getpid()); err != nil {
		return err
	}
	var pace time.Duration // of each sandbox of the level before
	for i, n := range c.opts.Levels {
		if i > 0 && pace*time.Duration(n-len(c.alive)) > c.opts.Grow {
			return c.to.Miss(c.system.Name, axis, fmt.Sprintf("%d alive", n), fmt.Sprintf("at %v for each they would take longer than %v", pace.Round(time.Millisecond), c.opts.Grow))
		}
		began, had := time.Now(), len(c.alive)
		full, err := c.grow(ctx, n)
		if err != nil {
			return err
		}
		// The least that there can be is measured however many those are. Further up, only
		// the levels are: runs are compared by them.
		if full && i > 0 {
			return c.to.Miss(c.system.Name, axis, fmt.Sprintf("%d alive", n), fmt.Sprintf("%d were alive when time or half of the memory was over", len(c.alive)))
		}
		pace = time.Since(began) / time.Duration(max(1, len(c.alive)-had))
		if err := c.weigh(ctx); err != nil || full {
			return err
		}
	}
	return nil
}

// grow makes sandboxes until there are n, or time or half of the memory is over: it is
// full then.
func (c *crowd) grow(ctx context.Context, n int) (full bool, err error) {
	deadline := time.Now().Add(c.opts.Grow)
	var mu sync.Mutex
	var all sync.WaitGroup
	begun := len(c.alive)
	more := func() bool {
		mu.Lock()
		defer mu.Unlock()
		m, readErr := lab.ReadMemory()
		if err = cmp.Or(err, readErr, ctx.Err()); err != nil || begun >= n {
			return false
		}
		if full = begun > 0 && (time.Now().After(deadline) || m.Available() < c.before.Available()/2); !full {
			begun++
		}
		return !full
	}
	for range makers {
		all.Go(func() {
			for more() {
				made, failed := c.system.Driver.Create(ctx, sandbox.Spec{})
				mu.Lock()
				if failed == nil {
					c.alive = append(c.alive, made)
				}
				err = cmp.Or(err, failed)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return full, err
}

// weigh records what each of the living holds and does.
func (c *crowd) weigh(ctx context.Context) error {
	ours, err := c.ours()
	if err != nil {
		return err
	}
	began := time.Now()
	with, err := lab.SettledWithin(ctx, c.opts.Settle, lab.Memory.Available)
	if err != nil {
		return err
	}
	select {
	case <-time.After(c.opts.Idle - time.Since(began)):
	case <-ctx.Done():
		return ctx.Err()
	}
	later, err := c.ours()
	if err != nil {
		return err
	}
	watched := time.Since(began)
	n := float64(len(c.alive))
	each, kinds := lab.Held(c.before, with, c.before, len(c.alive))
	kernel := 0.0
	for _, kind := range kinds {
		if kind.Name != "anonymous pages" && kind.Name != "tmpfs" {
			kernel += kind.Value
		}
	}
	held, err := c.held(later)
	if errors.Is(err, fs.ErrPermission) {
		err = c.to.Miss(c.system.Name, axis, run.PSS, err.Error())
		later = nil // of which nothing can be said
	}
	if err != nil {
		return err
	}
	records := []run.Record{c.record(run.Memory, run.KiB, each, kinds), c.record(run.Kernel, run.KiB, kernel, nil)}
	busy := 0.0
	if len(later) == 0 {
		// The first reason stands.
		if err := c.to.Miss(c.system.Name, axis, run.PSS, "no process could be told to be a sandbox's"); err != nil {
			return err
		}
	} else {
		busy = max(0, float64(used(ours, later))/float64(watched)/n)
		records = append(records, c.record(run.PSS, run.KiB, held/n, nil), c.record(run.Processors, run.Share, busy, nil))
	}
	records = append(records, c.record(run.Fit, run.Count, fit(c.before, max(each, held/n), busy), nil))
	for _, r := range records {
		if err := c.to.Append(r); err != nil {
			return err
		}
	}
	return nil
}

// used is the time of processors between two looks at the same processes.
func used(before, after lab.Processes) (sum time.Duration) {
	for pid, p := range after {
		if old, ok := before[pid]; ok && old.Began == p.Began {
			sum += p.CPU - old.CPU
		}
	}
	return sum
}

// fit is how many sandboxes fill the memory or the processors of the host.
func fit(before lab.Memory, kib, processors float64) float64 {
	many := float64(before.Available()) / max(kib, 1)
	if processors > 0 {
		many = min(many, float64(runtime.NumCPU())/processors)
	}
	return float64(int64(many))
}

// ours are the processes of the living.
func (c *crowd) ours() (lab.Processes, error) {
	ids := make([]string, len(c.alive))
	for i, one := range c.alive {
		ids[i] = one.ID()
	}
	all, err := lab.ReadProcesses()
	if err != nil {
		return nil, err
	}
	return all.Of(ids, c.processes)
}

// held is what processes hold, in KiB, with what this program has gained: it holds
// something for each sandbox too.
func (c *crowd) held(ours lab.Processes) (float64, error) {
	sum, err := ours.PSS()
	if err != nil {
		return 0, err
	}
	own, err := lab.ReadPSS(os.Getpid())
	return float64(sum + max(0, own-c.own)), err
}

func (c *crowd) record(figure string, unit run.Unit, value float64, parts []lab.Part) run.Record {
	r := run.Record{Kind: run.Sampled, System: c.system.Name, Axis: axis, Figure: figure, At: float64(len(c.alive)), Round: c.round, Value: value, Unit: unit}
	for _, p := range parts {
		r.Parts = append(r.Parts, run.Part{Name: p.Name, Value: p.Value})
	}
	return r
}

// end removes the living, whatever became of the context.
func (c *crowd) end() error {
	errs := make([]error, len(c.alive))
	var all sync.WaitGroup
	turn := make(chan struct{}, makers)
	for i, one := range c.alive {
		all.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			errs[i] = one.Destroy(context.Background())
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
