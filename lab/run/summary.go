package run

import (
	"slices"
	"time"

	"aether/profile"
	"aether/sandbox"
)

// busyShare is the share of the processors that others may use before a run says so.
const busyShare = 0.1

// summarize makes a run of its records.
func summarize(records []Record) (r Run, err error) {
	r.Header = *records[0].Start
	for _, name := range r.Header.Systems {
		r.Results = append(r.Results, System{System: name, Absent: "the run was stopped before it was looked at"})
	}
	for _, rec := range records {
		switch rec.Kind {
		case Found:
			r.found(rec)
		case Quiet:
			r.Busy.see(rec)
		case End:
			r.Complete = true
		}
	}
	r.TookSeconds = took(records).Seconds()
	for i := range r.Results {
		if err := r.Results[i].judge(r.Header.Axes, records); err != nil {
			return r, err
		}
	}
	return r, nil
}

// took leaves out the time in which a run was stopped: any gap of over ten minutes.
func took(records []Record) (sum time.Duration) {
	const stopped = 10 * time.Minute
	for i := 1; i < len(records); i++ {
		if gap := time.Duration(records[i].UnixMS-records[i-1].UnixMS) * time.Millisecond; gap < stopped {
			sum += gap
		}
	}
	return sum
}

func (b *Busy) see(rec Record) {
	b.Looks++
	b.Most, b.Load = max(b.Most, rec.Busy), max(b.Load, rec.Load)
	b.Said = b.Most > busyShare
}

func (r *Run) found(rec Record) {
	i := slices.IndexFunc(r.Results, func(s System) bool { return s.System == rec.System })
	if i < 0 {
		return
	}
	s := &r.Results[i]
	s.Absent = rec.Reason
	if rec.Machine != nil {
		s.Boundary, s.Version, s.Gaps = rec.Machine.Boundary, rec.Machine.Version, rec.Machine.Gaps
	}
}

// Axis gives what was found out about one axis; nil if it was not asked for.
func (s System) Axis(name string) *Axis {
	for i := range s.Axes {
		if s.Axes[i].Axis == name {
			return &s.Axes[i]
		}
	}
	return nil
}

// System gives the result of a system by its name. Errors: NotFound if the run has none.
func (r Run) System(name string) (System, error) {
	for _, s := range r.Results {
		if s.System == name {
			return s, nil
		}
	}
	return System{}, &sandbox.Error{Class: sandbox.NotFound, Field: "system", Reason: name + " is not in the run " + r.ID}
}

// judge makes the axes of a system of the records.
func (s *System) judge(asked []string, records []Record) error {
	if s.Absent != "" {
		return nil
	}
	sum := 0.0
	for _, axis := range profile.Axes() {
		if !slices.Contains(asked, axis.String()) {
			continue
		}
		a := Axis{Axis: axis.String()}
		a.collect(s.System, records)
		a.score()
		a.compareWith(axis, s.System)
		s.Axes = append(s.Axes, a)
		if a.Score != nil {
			sum += *a.Score
		}
	}
	scored := func(a Axis) bool { return a.Score != nil }
	if len(s.Axes) == len(profile.Axes()) && !slices.ContainsFunc(s.Axes, func(a Axis) bool { return !scored(a) }) {
		mean := sum / float64(len(s.Axes))
		s.Fitness = &mean
	}
	return nil
}

// collect takes what records say of the system on this axis.
func (a *Axis) collect(system string, records []Record) {
	type spot struct {
		figure string
		at     float64
	}
	var order []spot
	samples := map[spot][]Record{}
	for _, rec := range records {
		if rec.System != system || rec.Axis != a.Axis {
			continue
		}
		switch rec.Kind {
		case Sampled:
			p := spot{rec.Figure, rec.At}
			if samples[p] == nil {
				order = append(order, p)
			}
			samples[p] = append(samples[p], rec)
		case Proved:
			a.Facts = append(a.Facts, Fact{rec.Fact, rec.By, rec.Holds, rec.Proof, rec.Line})
		case Absent:
			a.Missing = append(a.Missing, Missing{rec.Figure, rec.Reason, rec.Line})
		}
	}
	for _, p := range order {
		a.Figures = append(a.Figures, figureOf(samples[p]))
	}
}

// Figure gives a figure at a place, or nil.
func (a Axis) Figure(name string, at float64) *Figure {
	for i, f := range a.Figures {
		if f.Figure == name && f.At == at {
			return &a.Figures[i]
		}
	}
	return nil
}

// last gives the figure of a name at its greatest place, or nil.
func (a Axis) last(name string) (found *Figure) {
	for i, f := range a.Figures {
		if f.Figure == name && (found == nil || f.At > found.At) {
			found = &a.Figures[i]
		}
	}
	return found
}
