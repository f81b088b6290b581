package engine

import (
	"context"
	"errors"
	"fmt"

	"aether/sandbox"
)

// Diagnosis is what an engine found of the paused sandboxes that it holds, and how much
// it keeps of recipes.
type Diagnosis struct {
	// Paused is how many there are.
	Paused int `json:"paused"`
	// Stuck are those that this host can no longer resume.
	Stuck []Stuck `json:"stuck"`
	// Layers are what the commands of recipes left, which Prune removes.
	Layers LayerUse `json:"layers"`
}

// Stuck is a paused sandbox that cannot go on on this host as it is.
type Stuck struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
	Driver string `json:"driver"`
	Reason string `json:"reason"`
	Remedy string `json:"remedy,omitempty"`
	// Files says that it can be resumed with its files alone.
	Files bool `json:"files"`
}

// Doctor looks which paused sandboxes this host can no longer resume, and why: another
// kernel, another processor, changed files of the host. Errors: Denied for others than
// operators.
func (e *Engine) Doctor(ctx context.Context, who Caller) (Diagnosis, error) {
	if !who.Operator {
		return Diagnosis{}, &sandbox.Error{Class: sandbox.Denied, Op: "engine: doctor", Reason: "only operators may"}
	}
	ctx, release, err := e.enterFleet(ctx)
	if err != nil {
		return Diagnosis{}, err
	}
	defer release()
	d := Diagnosis{Stuck: []Stuck{}, Layers: e.fleet.layers.used()}
	for _, b := range e.fleet.index.each() {
		r := b.copy()
		if r.State != Paused {
			continue
		}
		if ctx.Err() != nil {
			return d, fmt.Errorf("engine: doctor: %w", context.Cause(ctx))
		}
		d.Paused++
		if err := e.fleet.checkResume(ctx, b, r.Fidelity); err != nil && b.copy().State == Paused {
			d.Stuck = append(d.Stuck, e.fleet.stuck(ctx, b, err))
		}
	}
	return d, nil
}

// checkResume says why a paused sandbox cannot be resumed, as far as its driver can tell.
func (f *fleet) checkResume(ctx context.Context, b *box, give sandbox.Fidelity) error {
	r := b.copy()
	driver, err := f.drivers.Named(r.Driver)
	if err != nil {
		return err
	}
	if _, ok := driver.(sandbox.Restorer); !ok {
		return &sandbox.Error{Class: sandbox.Unsupported, Reason: r.Driver + " cannot restore sandboxes"}
	}
	if checker, ok := driver.(sandbox.RestoreChecker); ok {
		return checker.CheckRestore(f.rights.fetching(ctx, r.Tenant, r.Asked), b.keptDir(), give)
	}
	return driver.Probe(ctx).Err(r.Driver)
}

func (f *fleet) stuck(ctx context.Context, b *box, why error) Stuck {
	r := b.copy()
	s := Stuck{ID: r.ID, Tenant: r.Tenant, Driver: r.Driver, Reason: clip(why.Error(), maxDetail)}
	if e := (*sandbox.Error)(nil); errors.As(why, &e) {
		s.Remedy = e.Remedy
		if e.Reason != "" {
			s.Reason = clip(e.Reason, maxDetail)
		}
	}
	files := f.checkResume(ctx, b, sandbox.Filesystem)
	s.Files = files == nil || sandbox.ClassOf(files) == sandbox.Conflict // over what the image is now
	return s
}
