package cli

import (
	"context"
	"errors"

	"aether/sandbox"
)

// drivers are those of this build, best first. Each is made when a command first
// asks for it, so that most commands make none and a run makes one.
type drivers struct {
	makers []sandbox.Maker
	made   []sandbox.Driver // nil where nobody has asked
}

func newDrivers(makers []sandbox.Maker) *drivers {
	return &drivers{makers, make([]sandbox.Driver, len(makers))}
}

// at makes the driver in that place of the table, the first time.
func (d *drivers) at(i int) sandbox.Driver {
	if d.made[i] == nil {
		d.made[i] = d.makers[i].New()
	}
	return d.made[i]
}

// all makes every driver.
func (d *drivers) all() []sandbox.Driver {
	for i := range d.makers {
		d.at(i)
	}
	return d.made
}

func (d *drivers) names() []string {
	names := make([]string, len(d.makers))
	for i, m := range d.makers {
		names[i] = m.Name
	}
	return names
}

// close lets the drivers that were made give back what they hold.
func (d *drivers) close(ctx context.Context) (err error) {
	for _, driver := range d.made {
		if c, ok := driver.(sandbox.Closer); ok {
			err = errors.Join(err, c.Close(ctx))
		}
	}
	return err
}
