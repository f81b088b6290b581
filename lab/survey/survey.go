package survey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"aether/lab"
	"aether/lab/control"
	"aether/lab/density"
	"aether/lab/run"
	"aether/lab/snapshot"
	"aether/lab/start"
	"aether/profile"
	"aether/sandbox"
)

// Measure measures those of the systems that the run asks for, on its axes, and gives the
// summary, which is also written. What the run has already is not measured again. If the
// context ends, the summary is of what there is, and the run can go on.
func Measure(ctx context.Context, systems []lab.System, to *run.Store, opts Options) (_ run.Run, err error) {
	s := &survey{amount: whole, opts: opts, to: to, systems: systems}
	if to.Header().Quick {
		s.amount = quick
	}
	s.opts.Progress = cmp.Or(opts.Progress, lab.NewProgress(nil))
	dir, err := os.MkdirTemp(opts.Dir, "aether-lab-")
	if err != nil {
		return run.Run{}, err
	}
	// Ids of sandboxes have to reach what is in it.
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil {
		return run.Run{}, err
	}
	s.equip(dir)
	stopped := s.measure(ctx)
	if stopped == nil {
		stopped = to.Append(run.Record{Kind: run.End})
	}
	result, err := to.Summarize()
	return result, errors.Join(stopped, err)
}

type survey struct {
	amount  amount
	opts    Options
	to      *run.Store
	systems []lab.System // that are measured
}

// equip says where everybody keeps things and whom they tell.
func (s *survey) equip(dir string) {
	a := &s.amount
	a.start.Dir, a.snapshot.Dir, a.control.Dir = dir, dir, dir
	a.start.Progress, a.density.Progress, a.snapshot.Progress, a.control.Progress = s.opts.Progress, s.opts.Progress, s.opts.Progress, s.opts.Progress
}

// axes are measured in this order.
func (s *survey) axes() []axis {
	return []axis{
		{profile.AgentControl, func(ctx context.Context) error { return control.Measure(ctx, s.systems, s.amount.control, s.to) }},
		{profile.Isolation, s.isolation},
		{profile.StartLatency, func(ctx context.Context) error { return start.Measure(ctx, s.systems, s.amount.start, s.to) }},
		{profile.Density, func(ctx context.Context) error { return density.Measure(ctx, s.systems, s.amount.density, s.to) }},
		{profile.Snapshotting, func(ctx context.Context) error {
			return snapshot.Measure(ctx, s.systems, s.amount.snapshot, s.to)
		}},
	}
}

type axis struct {
	axis    profile.Axis
	measure func(context.Context) error
}

func (s *survey) measure(ctx context.Context) error {
	began := time.Now()
	if err := s.look(ctx); err != nil {
		return err
	}
	if err := s.find(ctx); err != nil {
		return err
	}
	for _, a := range s.axes() {
		step := a.axis.String()
		if !slices.Contains(s.to.Header().Axes, step) || s.to.Has(step) {
			continue
		}
		err := s.within(ctx, began, a)
		if err == nil {
			err = s.look(ctx)
		}
		if err == nil {
			err = s.to.Append(run.Record{Kind: run.Done, Step: step})
		}
		if err != nil {
			return err
		}
		if _, err := s.to.Summarize(); err != nil {
			return err
		}
	}
	return nil
}

// within measures an axis in the time that it has.
func (s *survey) within(ctx context.Context, began time.Time, a axis) error {
	limited := ctx
	if until, ok := s.amount.until[a.axis]; ok {
		var cancel context.CancelFunc
		limited, cancel = context.WithDeadline(ctx, began.Add(until))
		defer cancel()
	}
	err := a.measure(limited)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && limited.Err() != nil:
		return s.late(a.axis.String())
	}
	return err
}

// late says of an axis that a quick run has no more time for it: for systems that have
// nothing on it yet, and for what others have not.
func (s *survey) late(axis string) error {
	begun := map[string]bool{}
	for _, r := range s.to.Records() {
		begun[r.System] = begun[r.System] || r.Axis == axis && (r.Kind == run.Sampled || r.Kind == run.Proved)
	}
	for _, system := range s.systems {
		what := ""
		if begun[system.Name] {
			what = "what is not here"
		}
		if err := s.to.Miss(system.Name, axis, what, "the time that a quick run has for "+axis+" was over; leave --quick out"); err != nil {
			return err
		}
	}
	return nil
}

// look records what others use of the host.
func (s *survey) look(ctx context.Context) error {
	busy, err := lab.Busy(ctx, s.amount.look)
	if err != nil {
		return err
	}
	load, err := lab.Load()
	if err != nil {
		return err
	}
	return s.to.Append(run.Record{Kind: run.Quiet, Busy: busy, Load: load})
}

// probeTime is how long a driver may take to say whether it can run.
const probeTime = 5 * time.Second

// find keeps those systems that the run asks for and that run here. What a run has found
// out before is not asked again, unless it has to be there now.
func (s *survey) find(ctx context.Context) error {
	var here []lab.System
	for _, name := range s.to.Header().Systems {
		i := slices.IndexFunc(s.systems, func(one lab.System) bool { return one.Name == name })
		if i < 0 {
			if err := s.to.Append(run.Record{Kind: run.Found, System: name, Reason: "no driver in this build"}); err != nil {
				return err
			}
			continue
		}
		usable, err := s.probe(ctx, s.systems[i])
		if err != nil {
			return err
		}
		if usable {
			here = append(here, s.systems[i])
		}
	}
	s.systems = here
	return ctx.Err()
}

func (s *survey) probe(ctx context.Context, one lab.System) (usable bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	report := one.Driver.Probe(bounded)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	rec := run.Record{Kind: run.Found, System: one.Name, Reason: reasonOf(report),
		Machine: &run.Machine{Boundary: one.Driver.Info().Boundary.String(), Version: report.Version}}
	for _, g := range report.Gaps {
		rec.Machine.Gaps = append(rec.Machine.Gaps, fmt.Sprintf("without %s: %s", g.Missing, g.Cost))
	}
	if report.Usable {
		s.opts.Progress.Say("the first sandbox of %s", one.Name)
		if rec.Reason, err = s.trial(ctx, one); err != nil {
			return false, err
		}
	}
	return rec.Reason == "", s.to.Append(rec)
}

// trial makes one sandbox, so that what is prepared for all of them is there before
// anything is timed, and gives why the system cannot be measured. Errors: that of the
// context alone.
func (s *survey) trial(ctx context.Context, one lab.System) (reason string, err error) {
	bounded, cancel := context.WithTimeout(ctx, s.amount.trial)
	defer cancel()
	made, err := one.Driver.Create(bounded, sandbox.Spec{})
	if err == nil {
		err = made.Destroy(context.WithoutCancel(ctx))
	}
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil && bounded.Err() != nil:
		return fmt.Sprintf("its first sandbox took longer than %v: %v (make one before, with aether run --driver %s -- true, or leave --quick out)", s.amount.trial, err, one.Name), nil
	case err != nil:
		return err.Error(), nil
	}
	return "", nil
}

func reasonOf(r sandbox.Report) string {
	if r.Remedy == "" {
		return r.Reason
	}
	return fmt.Sprintf("%s (%s)", r.Reason, r.Remedy)
}
