package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"aether/lab"
	"aether/lab/run"
	"aether/profile"
)

var axis = profile.Snapshotting.String()

// Measure copies sandboxes of every system. Systems that were measured before are left
// out.
func Measure(ctx context.Context, systems []lab.System, opts Options, to *run.Store) error {
	opts.Progress = cmp.Or(opts.Progress, lab.NewProgress(nil))
	for _, s := range systems {
		m := &measurement{opts: opts, system: s, to: to}
		if err := to.Step("snapshotting of "+s.Name, opts.Progress, func() error { return m.measure(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

// measurement is of one system.
type measurement struct {
	opts   Options
	system lab.System
	to     *run.Store
}

// measure tells failures of the system as reasons, and returns those of the run. What one
// way leaves of its share of the budget is the next one's.
func (m *measurement) measure(ctx context.Context) error {
	bounded, cancel := context.WithTimeoutCause(ctx, m.opts.Budget, m.late())
	defer cancel()
	end := time.Now().Add(m.opts.Budget)
	ways := m.ways()
	for i, w := range ways {
		if w.absent != "" {
			if err := m.none(w); err != nil {
				return err
			}
			continue
		}
		if err := m.way(bounded, w, share(end, len(ways)-i)); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if bounded.Err() != nil {
				err = context.Cause(bounded)
			}
			if err := m.to.Miss(m.system.Name, axis, w.name, err.Error()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *measurement) late() error {
	return fmt.Errorf("the system took longer than the %v that it has in this run", m.opts.Budget)
}

// share is the end of the first of so many parts of the time that is left.
func share(end time.Time, parts int) time.Time {
	return time.Now().Add(time.Until(end) / time.Duration(parts))
}

// none records that a way is not there, and thus keeps nothing.
func (m *measurement) none(w way) error {
	err := m.to.Miss(m.system.Name, axis, w.name, w.absent)
	for _, fact := range facts {
		err = errors.Join(err, m.prove(fact, w.name, false, w.absent))
	}
	return err
}

func (m *measurement) prove(fact, by string, holds bool, proof string) error {
	return m.to.Append(run.Record{Kind: run.Proved, System: m.system.Name, Axis: axis, Fact: fact, By: by, Holds: holds, Proof: proof})
}

func (m *measurement) sample(figure string, at, value float64, unit run.Unit, round int) error {
	return m.to.Append(run.Record{Kind: run.Sampled, System: m.system.Name, Axis: axis, Figure: figure, At: at, Value: value, Unit: unit, Round: round})
}

func (m *measurement) took(figure string, at float64, t time.Duration, round int) error {
	return m.sample(figure, at, lab.Micros(t), run.Microseconds, round)
}

// way measures one way, at every size and with every number of copies, until its time is
// over. The first size is that of the score, which is measured whatever the time.
func (m *measurement) way(ctx context.Context, w way, until time.Time) error {
	var took time.Duration // by the size before
	var refused error
	for i, mib := range m.opts.Sizes {
		if i > 0 && time.Now().Add(took).After(until) {
			if err := m.to.Miss(m.system.Name, axis, fmt.Sprintf("%s of %d MiB", w.name, mib), m.late().Error()); err != nil {
				return err
			}
			continue
		}
		began := time.Now()
		end := share(until, len(m.opts.Sizes)-i)
		err := m.size(ctx, w, mib, i == 0, end, refused)
		if err != nil && i == 0 && ctx.Err() == nil && !w.files() {
			refused = err
			err = m.size(ctx, w, mib, true, end, refused)
		}
		if err != nil {
			return err
		}
		took = time.Since(began)
		if i > 0 {
			continue
		}
		if err := m.connections(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// connections shows whether a connection is kept, by a source of its own: a system may
// refuse to copy one that has any.
func (m *measurement) connections(ctx context.Context, w way) (err error) {
	if w.files() {
		return m.prove(run.Connections, w.name, false, "only files are copied")
	}
	source, err := newSource(ctx, m.system.Driver, m.opts.Dir, 1, connected)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.close()) }()
	made, err := w.make(ctx, source, 1)
	if err != nil && ctx.Err() == nil {
		return m.prove(run.Connections, w.name, false, err.Error())
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, made.end()) }()
	c, _, err := made.first(ctx, source)
	if err != nil {
		return m.prove(run.Connections, w.name, false, err.Error())
	}
	defer func() { err = errors.Join(err, c.close()) }()
	now, err := c.look(ctx, source.word)
	return m.prove(run.Connections, w.name, err == nil && now.TCP == source.word,
		fmt.Sprintf("through a connection over loopback came %.80q, want %q, error: %v", now.TCP, source.word, err))
}

// size measures one size. The first also shows what is kept, and that of the score also
// what many copies cost, in half of the time. Where a source with sockets was refused, it is
// one without.
func (m *measurement) size(ctx context.Context, w way, mib int, first bool, until time.Time, refused error) (err error) {
	kind := unconnected
	if refused != nil {
		kind = alone
	}
	source, err := newSource(ctx, m.system.Driver, m.opts.Dir, mib, kind)
	if err != nil {
		return err
	}
	source.refused = refused
	defer func() { err = errors.Join(err, source.close()) }()
	enough, many := until, mib == run.ScoredMiB && w.name == m.bestWay()
	if many {
		enough = share(until, 2)
	}
	var took time.Duration // by the last
	for round := range m.opts.Rounds {
		began := time.Now()
		if round > 0 && began.Add(took).After(enough) {
			break
		}
		if err := m.once(ctx, w, source, first && round == 0, round); err != nil {
			return err
		}
		took = time.Since(began)
	}
	if !many {
		return nil
	}
	for _, n := range m.opts.Copies {
		if time.Now().Add(time.Duration(n) * took).After(until) {
			err := m.to.Miss(m.system.Name, axis, fmt.Sprintf("%d copies", n), fmt.Sprintf("one takes %v, so that they would take longer than this run has for them", took.Round(time.Millisecond)))
			if err != nil {
				return err
			}
			continue
		}
		if err := m.copies(ctx, w, source, n); err != nil {
			return err
		}
	}
	return nil
}

// once makes one copy.
func (m *measurement) once(ctx context.Context, w way, source *source, show bool, round int) (err error) {
	at := float64(source.mib)
	made, err := w.make(ctx, source, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, made.end()) }()
	c, answered, err := made.first(ctx, source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if show {
		for fact, shown := range c.kept(ctx, source) {
			err = errors.Join(err, m.prove(fact, w.name, shown.holds, shown.proof))
		}
	}
	if made.snapshot > 0 {
		err = errors.Join(err, m.took(run.Snapshot, at, made.snapshot, round))
	}
	return errors.Join(err, m.took(w.name, at, answered, round), m.took(w.still, at, made.still, round))
}

// copies makes many at once, and weighs them.
func (m *measurement) copies(ctx context.Context, w way, source *source, n int) (err error) {
	before, err := lab.ReadProcesses()
	if err != nil {
		return err
	}
	if room, err := half(); err != nil || int64(n*source.mib)<<10 > room {
		return errors.Join(err, m.to.Miss(m.system.Name, axis, fmt.Sprintf("%d copies", n), "they could fill half of the host's memory"))
	}
	made, err := w.make(ctx, source, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, made.end()) }()
	c, _, err := made.first(ctx, source) // it is a copy if it answers
	if err != nil {
		return err
	}
	if err := c.close(); err != nil {
		return err
	}
	if err := m.took(run.Copies, float64(n), made.took, 0); err != nil {
		return err
	}
	processes, held, err := made.held(before)
	if err != nil {
		return err
	}
	each := float64(held) / float64(n)
	if processes == 0 {
		return m.to.Miss(m.system.Name, axis, run.CopyMemory, "no process could be told to be a copy's")
	}
	if err := m.sample(run.CopyMemory, float64(n), each, run.KiB, 0); err != nil || !c.memory {
		return err
	}
	shared := 1 - each/float64(source.mib<<10)
	return m.sample(run.Shared, run.ScoredMiB, min(1, max(0, shared)), run.Share, n)
}

// bestWay is that by which many copies are made.
func (m *measurement) bestWay() string {
	if m.system.Driver.Info().Verbs.Fork != "" {
		return run.Fork
	}
	return run.Restore
}

// half is half of what memory the host has, in KiB.
func half() (int64, error) {
	memory, err := lab.ReadMemory()
	return min(memory["MemTotal"]/2, memory.Available()), err
}
