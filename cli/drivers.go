package cli

import (
	"errors"
	"slices"

	"aether/engine"
	"aether/profile"
	"aether/sandbox"
)

// drivers are those of this build, which the command line also knows by the aliases of
// their systems. Most commands make none of them, and a run makes one.
type drivers struct {
	*engine.Drivers
	makers []sandbox.Maker
}

func newDrivers(makers []sandbox.Maker) *drivers { return &drivers{engine.NewDrivers(makers), makers} }

// candidates are the drivers that may serve a wish, best first.
func (d *drivers) candidates(name string, want sandbox.Boundary) (_ engine.Candidates, err error) {
	if name != "" {
		if name, err = d.canonical(name); err != nil {
			return engine.Candidates{}, err
		}
	}
	list, err := d.Candidates(name, want)
	return list, asFlag(err)
}

// named makes the driver of a name or alias.
func (d *drivers) named(name string) (sandbox.Driver, error) {
	name, err := d.canonical(name)
	if err != nil {
		return nil, err
	}
	return d.Named(name)
}

// canonical knows a driver by its own name, which may be the alias of another system
// (runc is docker's), and then by the aliases of its system.
func (d *drivers) canonical(name string) (string, error) {
	names := d.Names()
	if slices.Contains(names, name) {
		return name, nil
	}
	if system, err := profile.Parse(name); err == nil && slices.Contains(names, system.Name()) {
		return system.Name(), nil
	}
	return "", unknownName("--driver", name, names)
}

// asFlag names the field at fault, if the driver was chosen by it, as its flag.
func asFlag(err error) error {
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Field != "driver" && e.Field != "isolation" {
		return err
	}
	flagged := *e
	flagged.Field = "--" + e.Field
	return &flagged
}
