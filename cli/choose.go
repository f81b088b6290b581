package cli

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"aether/profile"
	"aether/sandbox"
)

// candidates are the drivers that may serve a wish, best first: the one that is
// named, or all whose boundary is strong enough. Those that are never reached are
// never made.
func (d *drivers) candidates(name string, want sandbox.Boundary) (iter.Seq[sandbox.Driver], error) {
	if name != "" {
		driver, err := d.named(name)
		if err != nil {
			return nil, err
		}
		if got := driver.Info().Boundary; got < want {
			return nil, sandbox.Invalidf("--driver", "%s gives a %v boundary, and --isolation asks for %v", driver.Info().Name, got, want)
		}
		return slices.Values([]sandbox.Driver{driver}), nil
	}
	if list := d.strongEnough(want); first(list) != nil {
		return list, nil
	}
	return nil, &sandbox.Error{Class: sandbox.Unavailable, Field: "--isolation",
		Reason: fmt.Sprintf("no driver in this build gives a %v boundary", want), Remedy: "see aether systems"}
}

func (d *drivers) strongEnough(want sandbox.Boundary) iter.Seq[sandbox.Driver] {
	return func(yield func(sandbox.Driver) bool) {
		for i := range d.makers {
			if driver := d.at(i); driver.Info().Boundary >= want && !yield(driver) {
				return
			}
		}
	}
}

// first is the best of a list, or nil if nobody is on it.
func first(list iter.Seq[sandbox.Driver]) sandbox.Driver {
	for driver := range list {
		return driver
	}
	return nil
}

// named knows a driver by its own name, which may be the alias of another system
// (runc is docker's), and then by the aliases of its system.
func (d *drivers) named(name string) (sandbox.Driver, error) {
	names := d.names()
	if at := slices.Index(names, name); at >= 0 {
		return d.at(at), nil
	}
	if system, err := profile.Parse(name); err == nil {
		if at := slices.Index(names, system.Name()); at >= 0 {
			return d.at(at), nil
		}
	}
	return nil, unknownName("--driver", name, names)
}

// create makes a sandbox with the first driver that this host lets. What the best one
// can never do is its answer; a lesser one that never can is passed over.
func create(ctx context.Context, list iter.Seq[sandbox.Driver], spec sandbox.Spec) (sandbox.Driver, sandbox.Instance, error) {
	var refusals []error
	var names []string
	for d := range list {
		instance, err := d.Create(ctx, spec)
		if err == nil {
			return d, instance, nil
		}
		if class := sandbox.ClassOf(err); class != sandbox.Unavailable && (class != sandbox.Unsupported || len(refusals) == 0) {
			return nil, nil, err
		}
		refusals, names = append(refusals, err), append(names, d.Info().Name)
	}
	if len(refusals) == 1 || spec.Isolation == sandbox.AnyBoundary {
		return nil, nil, refusals[0] // what the best one lacks is the first thing to mend
	}
	return nil, nil, &sandbox.Error{Class: sandbox.Unavailable, Field: "--isolation",
		Reason: fmt.Sprintf("none of the systems with at least a %v boundary can run here: %s", spec.Isolation, strings.Join(names, ", ")),
		Remedy: "`aether systems` says what each of them lacks"}
}
