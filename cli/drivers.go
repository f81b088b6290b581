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

// flagOf are the flags of fields that the host has a say in.
var flagOf = map[string]string{"driver": "--driver", "isolation": "--isolation", "network.mode": "--net", "network.allow": "--allow", "network.deny": "--deny",
	"network.proxy": "--proxy", "network.connections": "--max-connections", "network.bytes_per_second": "--net-rate"}

// asFlag names the field at fault as its flag, if it is one that a driver or an engine
// refuses.
func asFlag(err error) error {
	var e *sandbox.Error
	if !errors.As(err, &e) || flagOf[e.Field] == "" {
		return err
	}
	flagged := *e
	flagged.Field = flagOf[e.Field]
	return &flagged
}
