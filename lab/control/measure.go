package control

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

// Options say how it is measured.
type Options struct {
	// Budget is how long one system may take.
	Budget time.Duration
	// Dir is where engines keep their state meanwhile; empty means that of temporary files.
	Dir      string
	Progress *lab.Progress
}

var axis = profile.AgentControl.String()

// Measure goes through the rubric with every system. Systems that were measured before are
// left out.
func Measure(ctx context.Context, systems []lab.System, opts Options, to *run.Store) error {
	opts.Progress = cmp.Or(opts.Progress, lab.NewProgress(nil))
	for _, s := range systems {
		err := to.Step("agent-control of "+s.Name, opts.Progress, func() error {
			err := measure(ctx, s, opts, to)
			if err != nil && ctx.Err() == nil {
				err = to.Miss(s.Name, axis, "", err.Error())
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func measure(ctx context.Context, s lab.System, opts Options, to *run.Store) error {
	ctx, cancel := context.WithTimeout(ctx, opts.Budget)
	defer cancel()
	if s.New == nil {
		return errors.New("it cannot be measured through an engine")
	}
	byAether, err := through(ctx, s, opts.Dir)
	if err != nil {
		return fmt.Errorf("through Aether: %w", err)
	}
	own, err := native(ctx, s, byAether)
	if err != nil {
		return fmt.Errorf("by its own interface: %w", err)
	}
	for _, side := range []struct {
		by    string
		found findings
	}{{run.Native, own}, {run.Through, byAether}} {
		if without := missing(side.found); len(without) > 0 {
			return fmt.Errorf("nothing was shown of %v", without)
		}
		for _, fact := range Facts {
			f := side.found[fact]
			if err := to.Append(run.Record{Kind: run.Proved, System: s.Name, Axis: axis, Fact: fact, By: side.by, Holds: f.holds, Proof: f.proof}); err != nil {
				return err
			}
		}
	}
	return nil
}
