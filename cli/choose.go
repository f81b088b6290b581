package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"aether/profile"
	"aether/sandbox"
)

// candidates are the drivers that may serve a wish, best first: the one that is
// named, or all whose boundary is strong enough.
func candidates(drivers []sandbox.Driver, name string, want sandbox.Boundary) ([]sandbox.Driver, error) {
	if name != "" {
		d, err := namedDriver(drivers, name)
		if err != nil {
			return nil, err
		}
		if got := d.Info().Boundary; got < want {
			return nil, sandbox.Invalidf("--driver", "%s gives a %v boundary, and --isolation asks for %v", d.Info().Name, got, want)
		}
		return []sandbox.Driver{d}, nil
	}
	var list []sandbox.Driver
	for _, d := range drivers {
		if d.Info().Boundary >= want {
			list = append(list, d)
		}
	}
	if len(list) == 0 {
		return nil, &sandbox.Error{Class: sandbox.Unavailable, Field: "--isolation",
			Reason: fmt.Sprintf("no driver in this build gives a %v boundary", want), Remedy: "see aether systems"}
	}
	return list, nil
}

// namedDriver knows a driver by its own name, which may be the alias of another
// system (runc is docker's), and then by the aliases of its system.
func namedDriver(drivers []sandbox.Driver, name string) (sandbox.Driver, error) {
	var known []string
	for _, d := range drivers {
		if d.Info().Name == name {
			return d, nil
		}
		known = append(known, d.Info().Name)
	}
	if system, err := profile.Parse(name); err == nil {
		if at := slices.Index(known, system.Name()); at >= 0 {
			return drivers[at], nil
		}
	}
	return nil, unknownName("--driver", name, known)
}

// create makes a sandbox with the first driver that this host lets.
func create(ctx context.Context, list []sandbox.Driver, spec sandbox.Spec) (sandbox.Driver, sandbox.Instance, error) {
	var refusals []error
	var names []string
	for _, d := range list {
		instance, err := d.Create(ctx, spec)
		if err == nil {
			return d, instance, nil
		}
		if sandbox.ClassOf(err) != sandbox.Unavailable {
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
