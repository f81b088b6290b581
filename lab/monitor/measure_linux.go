package monitor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aether/lab"
	"aether/sandbox"
)

// patience bounds one turn, on the slowest host: one that is itself emulated.
const patience = 5 * time.Minute

// bench is two systems, and a machine of each that is copied.
type bench struct {
	opts         Options
	ours, theirs *side
	undo         []func() error
}

// side is one of them.
type side struct {
	lab.System
	made     string // how a machine of it comes to be
	opts     Options
	source   source
	restorer sandbox.Restorer
	saved    string // a snapshot of the source
}

// source is a machine that can be copied in every way.
type source interface {
	sandbox.Instance
	sandbox.Forker
	sandbox.Snapshotter
	sandbox.ForkReporter
	// LastForkFreeze is how long its processors stood still at the last fork, which may be
	// less than its commands did.
	LastForkFreeze() time.Duration
}

// Measure holds one system against another.
func Measure(ctx context.Context, ours, theirs lab.System, opts Options) (r Report, err error) {
	if err := opts.Validate(); err != nil {
		return r, err
	}
	opts = opts.withDefaults()
	b := &bench{opts: opts, ours: &side{System: ours, made: create, opts: opts}, theirs: &side{System: theirs, made: boot, opts: opts}}
	r.Driver, r.Peer, r.Rounds = ours.Name, theirs.Name, opts.Rounds
	err = r.Watch(func() (err error) {
		defer func() { err = errors.Join(err, b.close()) }()
		if err := b.measure(ctx, &r); err != nil {
			return err
		}
		r.Crowds, err = b.ours.crowds(ctx)
		return err
	})
	r.Targets = r.judge()
	return r, err
}

func (b *bench) close() (err error) {
	for i := len(b.undo) - 1; i >= 0; i-- {
		err = errors.Join(err, b.undo[i]())
	}
	return err
}

// calm is how long nothing is done before a turn: what a driver does after its own, such as
// starting what the next machine will need, is on no other's account.
const calm = time.Second

// rested is a turn after calm.
func rested(take func(context.Context) (lab.Sample, error)) func(context.Context) (lab.Sample, error) {
	return func(ctx context.Context) (lab.Sample, error) {
		select {
		case <-ctx.Done():
			return lab.Sample{}, ctx.Err()
		case <-time.After(calm):
			return take(ctx)
		}
	}
}

// way is one by which a system is measured, and the table of its row.
type way struct {
	lab.Contender
	table *[]lab.Row
}

func (s *side) ways(r *Report) []way {
	return []way{
		{lab.Contender{Name: s.Name + s.made, Take: rested(s.create)}, &r.Boot},
		{lab.Contender{Name: s.Name + fork, Take: rested(s.fork)}, &r.Copy},
		{lab.Contender{Name: s.Name + load, Take: rested(s.load)}, &r.Copy},
		{lab.Contender{Name: s.Name + snapshot, Take: rested(s.snapshot)}, &r.Snapshot},
	}
}

// measure gives every way of both its turn in each round.
func (b *bench) measure(ctx context.Context, r *Report) error {
	var ways []way
	var turns []lab.Contender
	for _, s := range []*side{b.ours, b.theirs} {
		b.opts.Progress.Say("%s: a machine to copy", s.Name)
		if err := b.prepare(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		ways = append(ways, s.ways(r)...)
	}
	if cold := (&side{System: b.opts.Cold, opts: b.opts}); cold.Name != "" {
		ways = append(ways, way{lab.Contender{Name: cold.Name + boot, Take: rested(cold.create)}, &r.Boot})
	}
	for _, w := range ways {
		turns = append(turns, w.Contender)
	}
	rounds := lab.Rounds{Count: b.opts.Rounds, Warmup: 1, Patience: patience, Seen: func(n, round int, s lab.Sample) error {
		b.opts.Progress.Say("round %d: %s took %v", round+1, turns[n].Name, s.First.Round(time.Microsecond))
		return nil
	}}
	samples, err := rounds.Measure(ctx, turns)
	if err != nil {
		return err
	}
	for n, w := range ways {
		*w.table = append(*w.table, lab.NewRow(w.Name, samples[n]))
		r.Still = append(r.Still, still(w.Name, samples[n])...)
	}
	lab.CompareRows(r.Boot, b.theirs.Name+boot)
	lab.CompareRows(r.Copy, b.theirs.Name+load)
	lab.CompareRows(r.Snapshot, b.theirs.Name+snapshot)
	lab.CompareRows(r.Still, b.theirs.Name+fork+freeze)
	return nil
}

// still are the rows of how long the machines stood still that were copied by a way, if any
// did.
func still(name string, samples []lab.Sample) []lab.Row {
	var processors []time.Duration
	for _, s := range samples {
		for _, l := range s.Laps {
			if l.Name == lapFrozen {
				processors = append(processors, l.Took)
			}
		}
	}
	if len(processors) == 0 {
		return nil
	}
	return []lab.Row{lab.RowOf(name+freeze, processors), lab.Pauses(name+commands, samples)}
}
