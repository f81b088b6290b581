package survey

import (
	"context"

	"aether/lab"
	"aether/lab/isolation"
	"aether/lab/run"
	"aether/profile"
)

// isolation has a program look out of a sandbox of each system.
func (s *survey) isolation(ctx context.Context) error {
	for _, one := range s.systems {
		if err := s.to.Step("isolation of "+one.Name, s.opts.Progress, func() error { return s.try(ctx, one) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *survey) try(ctx context.Context, one lab.System) error {
	name := profile.Isolation.String()
	found, err := isolation.Measure(ctx, one.Driver, isolation.Options{Patience: s.amount.trial})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return s.to.Miss(one.Name, name, "", err.Error())
	}
	records := []run.Record{
		{Kind: run.Sampled, System: one.Name, Axis: name, Figure: run.Resistance, Value: found.Score, Unit: run.Share},
		{Kind: run.Sampled, System: one.Name, Axis: name, Figure: run.Lost, Value: found.Lost, Unit: run.Count},
	}
	if found.Calls.Host != nil {
		records = append(records, run.Record{Kind: run.Sampled, System: one.Name, Axis: name, Figure: run.HostCalls, Value: float64(*found.Calls.Host), Unit: run.Count})
	}
	for _, f := range found.Findings {
		rec := run.Record{Kind: run.Proved, System: one.Name, Axis: name, Fact: f.Name, By: string(f.Group), Holds: f.Status == isolation.Safe, Proof: f.Seen}
		if f.Status == isolation.Unknown {
			rec = run.Record{Kind: run.Absent, System: one.Name, Axis: name, Figure: f.Name, Reason: f.Seen}
		}
		records = append(records, rec)
	}
	for _, r := range records {
		if err := s.to.Append(r); err != nil {
			return err
		}
	}
	return nil
}
