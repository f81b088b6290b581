package start

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"aether/lab"
	"aether/lab/run"
	"aether/profile"
)

// Options say how much is measured.
type Options struct {
	// Rounds is how often every way is taken, one at a time, and Crowds how often by many
	// at once.
	Rounds, Crowds int
	// Crowd is how many are many; zero means two for each core.
	Crowd int
	// Budget is how long one way of one system may take in all, Prepare how long what has to
	// be prepared for it may, and Patience how long one start.
	Budget, Prepare, Patience time.Duration
	// Dir is where snapshots are kept meanwhile; empty means that of temporary files.
	Dir      string
	Progress *lab.Progress
}

const (
	warmup = 1
	// breath lets what the kernel removes after a sandbox's end settle.
	breath = 5 * time.Millisecond
)

var axis = profile.StartLatency.String()

// Measure has all systems start sandboxes in turns, and records every start. What was
// recorded before is not measured again.
func Measure(ctx context.Context, systems []lab.System, opts Options, to *run.Store) (err error) {
	opts.Crowd = cmp.Or(opts.Crowd, 2*runtime.NumCPU())
	opts.Progress = cmp.Or(opts.Progress, lab.NewProgress(nil))
	opts.Dir = cmp.Or(opts.Dir, os.TempDir())
	f := &field{opts: opts}
	defer func() { err = errors.Join(err, f.close()) }()
	var ways []way
	for _, s := range systems {
		opts.Progress.Say("start-latency: preparing %s", s.Name)
		for _, w := range f.ways(ctx, s) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if w.absent == "" {
				ways = append(ways, w)
			} else if err := w.miss(to, w.absent); err != nil {
				return err
			}
		}
	}
	opts.Progress.Say("start-latency: %d rounds of %d ways, one at a time", opts.Rounds, len(ways))
	if err := f.rounds(ctx, ways, to); err != nil {
		return err
	}
	opts.Progress.Say("start-latency: %d rounds of %d ways, %d at once", opts.Crowds, len(ways), opts.Crowd)
	return f.crowds(ctx, ways, to)
}

func (w way) miss(to *run.Store, reason string) error { return to.Miss(w.system, axis, w.name, reason) }

func (w way) record(at float64, round int, s lab.Sample) run.Record {
	return run.FromSample(s, run.Record{System: w.system, Axis: axis, Figure: w.name, At: at, Round: round})
}

// left is how many of so many samples are still to be taken.
func left(to *run.Store, w way, at float64, want int) int {
	for _, r := range to.Records() {
		if r.Kind == run.Sampled && r.Axis == axis && r.System == w.system && r.Figure == w.name && r.At == at {
			want--
		}
	}
	return want
}

func (f *field) schedule(ways []way, to *run.Store) lab.Rounds {
	return lab.Rounds{Warmup: warmup, Breath: breath, Patience: f.opts.Patience, Budget: f.opts.Budget,
		Failed: func(i int, err error) error { return ways[i].miss(to, err.Error()) }}
}

// rounds takes every way one at a time.
func (f *field) rounds(ctx context.Context, ways []way, to *run.Store) error {
	contenders := make([]lab.Contender, len(ways))
	for i, w := range ways {
		contenders[i] = lab.Contender{Name: w.system + " by " + w.name, Turns: left(to, w, 1, f.opts.Rounds), Take: w.one}
		if contenders[i].Turns <= 0 {
			contenders[i].Skipped = "measured before"
		}
	}
	r := f.schedule(ways, to)
	r.Count = f.opts.Rounds
	r.Seen = func(i, round int, s lab.Sample) error {
		f.opts.Progress.Tick("start-latency: round %d of %d", round+1, f.opts.Rounds)
		return to.Append(ways[i].record(1, round, s))
	}
	_, err := r.Measure(ctx, contenders)
	return err
}

// one takes a way, and leaves it as it was.
func (w way) one(ctx context.Context) (lab.Sample, error) {
	s, err := w.take(ctx)
	if err == nil && w.refill != nil {
		err = w.refill(ctx)
	}
	return s, err
}

// crowds takes every way by many at once, and records each of those.
func (f *field) crowds(ctx context.Context, ways []way, to *run.Store) error {
	at := float64(f.opts.Crowd)
	contenders := make([]lab.Contender, len(ways))
	last := make([][]lab.Sample, len(ways))
	for i, w := range ways {
		contenders[i] = lab.Contender{Name: fmt.Sprintf("%d of %s by %s", f.opts.Crowd, w.system, w.name), Turns: f.opts.Crowds}
		if left(to, w, at, f.opts.Crowds*f.opts.Crowd) < f.opts.Crowds*f.opts.Crowd {
			contenders[i].Skipped = "measured before"
		} else if alone := longest(to, w); alone > f.opts.Budget {
			contenders[i].Skipped = "too slow"
			if err := w.missMany(to, f.opts.Crowd, fmt.Sprintf("one alone takes %v, which is the share of all", alone.Round(time.Millisecond))); err != nil {
				return err
			}
		}
		contenders[i].Take = func(ctx context.Context) (_ lab.Sample, err error) {
			last[i], err = w.many(ctx, f.opts.Crowd)
			return lab.Sample{}, err
		}
	}
	r := f.schedule(ways, to)
	r.Count, r.Warmup = f.opts.Crowds, 0
	r.Seen = func(i, round int, _ lab.Sample) error {
		f.opts.Progress.Tick("start-latency: %d at once, round %d of %d", f.opts.Crowd, round+1, f.opts.Crowds)
		for _, s := range last[i] {
			if err := to.Append(ways[i].record(at, round, s)); err != nil {
				return err
			}
		}
		return nil
	}
	_, err := r.Measure(ctx, contenders)
	return err
}

// longest is how long a way took that was taken alone.
func longest(to *run.Store, w way) (most time.Duration) {
	for _, r := range to.Records() {
		if r.Kind == run.Sampled && r.Axis == axis && r.System == w.system && r.Figure == w.name && r.At == 1 {
			most = max(most, time.Duration(r.Value*float64(time.Microsecond)))
		}
	}
	return most
}

func (w way) missMany(to *run.Store, n int, reason string) error {
	return to.Miss(w.system, axis, fmt.Sprintf("%d at once by %s", n, w.name), reason)
}

// many takes a way n times at once.
func (w way) many(ctx context.Context, n int) ([]lab.Sample, error) {
	samples, errs := make([]lab.Sample, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { samples[i], errs[i] = w.take(ctx) })
	}
	all.Wait()
	err := errors.Join(errs...)
	if err == nil && w.refill != nil {
		err = w.refill(ctx)
	}
	return samples, err
}
