package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"aether/sandbox"
)

// Drivers are those of a build, best first. Each is made when somebody first asks for
// it, so that what nobody uses is never made.
type Drivers struct {
	makers []sandbox.Maker

	mu   sync.Mutex
	one  bool             // those that are made from now on are for one sandbox
	made []sandbox.Driver // nil where nobody has asked
}

// NewDrivers makes none of them yet.
func NewDrivers(makers []sandbox.Maker) *Drivers {
	return &Drivers{makers: makers, made: make([]sandbox.Driver, len(makers))}
}

// ForOne has drivers that are not made yet be made for one sandbox (see sandbox.Maker).
func (d *Drivers) ForOne() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.one = true
}

// at makes the driver in that place of the table, the first time.
func (d *Drivers) at(i int) sandbox.Driver {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made[i] == nil {
		m := d.makers[i]
		if d.one && m.One != nil {
			d.made[i] = m.One()
		} else {
			d.made[i] = m.New()
		}
	}
	return d.made[i]
}

// Drivers are those that an engine with a state directory makes sandboxes with, or nil.
func (e *Engine) Drivers() *Drivers {
	if e.fleet == nil {
		return nil
	}
	return e.fleet.drivers
}

// All makes every driver.
func (d *Drivers) All() []sandbox.Driver {
	list := make([]sandbox.Driver, len(d.makers))
	for i := range d.makers {
		list[i] = d.at(i)
	}
	return list
}

// Names are the canonical names, best first.
func (d *Drivers) Names() []string {
	names := make([]string, len(d.makers))
	for i, m := range d.makers {
		names[i] = m.Name
	}
	return names
}

// Named makes the driver of a canonical name. Errors: Invalid for the field driver.
func (d *Drivers) Named(name string) (sandbox.Driver, error) {
	at := slices.Index(d.Names(), name)
	if at < 0 {
		e := sandbox.Invalidf("driver", "%.80q is not a driver of this build", name)
		e.Remedy = "use one of " + strings.Join(d.Names(), ", ")
		return nil, e
	}
	return d.at(at), nil
}

// Close lets the drivers that were made give back what they hold.
func (d *Drivers) Close(ctx context.Context) (err error) {
	d.mu.Lock()
	made := slices.Clone(d.made)
	d.mu.Unlock()
	for _, driver := range made {
		if c, ok := driver.(sandbox.Closer); ok {
			err = errors.Join(err, c.Close(ctx))
		}
	}
	return err
}

// Candidates are the drivers that may serve a wish, best first.
type Candidates struct {
	list  iter.Seq[sandbox.Driver]
	named bool
	// before, unless it is nil, is told of each driver before that makes a sandbox.
	before func(sandbox.Driver) error
}

// Only is one driver, which somebody has chosen.
func Only(driver sandbox.Driver) Candidates {
	return Candidates{list: slices.Values([]sandbox.Driver{driver}), named: true}
}

// Candidates finds the one that is named, or else all whose boundary is strong
// enough. Those that are never reached are never made. Errors: Invalid for the field
// driver; Unavailable for the field isolation.
func (d *Drivers) Candidates(name string, want sandbox.Boundary) (Candidates, error) {
	if name != "" {
		driver, err := d.Named(name)
		if err != nil {
			return Candidates{}, err
		}
		if got := driver.Info().Boundary; got < want {
			return Candidates{}, sandbox.Invalidf("driver", "%s gives a %v boundary, and the isolation asked for is %v", driver.Info().Name, got, want)
		}
		return Only(driver), nil
	}
	c := Candidates{list: d.strongEnough(want)}
	if c.First() == nil {
		return Candidates{}, &sandbox.Error{Class: sandbox.Unavailable, Field: "isolation",
			Reason: fmt.Sprintf("no driver in this build gives a %v boundary", want), Remedy: "see aether systems"}
	}
	return c, nil
}

func (d *Drivers) strongEnough(want sandbox.Boundary) iter.Seq[sandbox.Driver] {
	return func(yield func(sandbox.Driver) bool) {
		for i := range d.makers {
			if driver := d.at(i); driver.Info().Boundary >= want && !yield(driver) {
				return
			}
		}
	}
}

// All are they, each made when it is reached.
func (c Candidates) All() iter.Seq[sandbox.Driver] { return c.list }

// First is the best of them, or nil if there is none.
func (c Candidates) First() sandbox.Driver {
	for driver := range c.list {
		return driver
	}
	return nil
}

// Choice is a sandbox that was made, by which driver, and why by that one.
type Choice struct {
	Driver   sandbox.Driver
	Instance sandbox.Instance
	Why      string
}

// Create makes a sandbox with the first driver that this host lets. What the best one
// can never do is its answer; a lesser one that never can is passed over.
func (c Candidates) Create(ctx context.Context, spec sandbox.Spec) (Choice, error) {
	var refusals []error
	var names []string
	for d := range c.list {
		instance, err := c.create(ctx, d, spec)
		if err == nil {
			return Choice{d, instance, c.why(names, refusals)}, nil
		}
		if class := sandbox.ClassOf(err); class != sandbox.Unavailable && (class != sandbox.Unsupported || len(refusals) == 0) {
			return Choice{}, err
		}
		refusals, names = append(refusals, err), append(names, d.Info().Name)
	}
	if len(refusals) == 1 || spec.Isolation == sandbox.AnyBoundary {
		return Choice{}, refusals[0] // what the best one lacks is the first thing to mend
	}
	return Choice{}, &sandbox.Error{Class: sandbox.Unavailable, Field: "isolation",
		Reason: fmt.Sprintf("none of the systems with at least a %v boundary can run here: %s", spec.Isolation, strings.Join(names, ", ")),
		Remedy: "`aether systems` says what each of them lacks"}
}

func (c Candidates) create(ctx context.Context, d sandbox.Driver, spec sandbox.Spec) (sandbox.Instance, error) {
	if c.before != nil {
		if err := c.before(d); err != nil {
			return nil, err
		}
	}
	return d.Create(ctx, spec)
}

// why says how the driver after those that refused was chosen.
func (c Candidates) why(names []string, refusals []error) string {
	switch {
	case c.named:
		return "it was asked for by name"
	case len(names) == 0:
		return "it is the best that holds what was asked for"
	}
	return fmt.Sprintf("it is the best that can run here: %s could not (%v)", names[0], refusals[0])
}
