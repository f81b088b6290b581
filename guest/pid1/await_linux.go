package pid1

import (
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"

	"aether/guest"
	"aether/internal/host/guestinit"
)

// await serves as the init of a machine that is nobody's yet. What does not depend
// on whose it will be is done here, once for all copies.
func (c Config) await() error {
	if err := load(c.Machine.Modules); err != nil {
		return err
	}
	if len(c.Machine.Held) > 0 {
		if err := guestinit.HoldDevices(); err != nil {
			return err
		}
	}
	if err := load(c.Machine.Held); err != nil {
		return err
	}
	if err := guestinit.LoopbackUp(); err != nil {
		return err
	}
	group, err := guestinit.MountGroups(0)
	if err != nil {
		return err
	}
	settle()
	b := &unconfigured{channel: c.Channel}
	if b.service, err = c.open(group); err != nil {
		return err
	}
	b.routes.HandleFunc("POST "+configurePath, control(maxConfiguration, b.configure))
	return errors.Join(c.serve(b), b.service.Close())
}

// unconfigured answers one Configure, and from then on is the guest service.
type unconfigured struct {
	channel string
	service *guest.Service
	routes  http.ServeMux
	taken   atomic.Bool
	ready   atomic.Pointer[http.Handler]
}

// ServeHTTP implements http.Handler.
func (b *unconfigured) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if handler := b.ready.Load(); handler != nil {
		(*handler).ServeHTTP(w, r)
		return
	}
	b.routes.ServeHTTP(w, r)
}

var errTaken = errors.New("this machine is configured, or could not be")

func (b *unconfigured) configure(body []byte) error {
	if b.taken.Swap(true) {
		return errTaken
	}
	var c Configuration
	if err := json.Unmarshal(body, &c); err != nil {
		return err
	}
	c.Config.Channel = b.channel
	if err := c.Validate(); err != nil {
		return err
	}
	m, err := c.apply()
	if err != nil {
		return err
	}
	if err := b.service.Configure(c.Config.options()); err != nil {
		return err
	}
	handler := c.Config.handler(b.service, m)
	b.ready.Store(&handler)
	return nil
}

// apply begins with what makes this copy of the machine differ from the others.
func (c Configuration) apply() (*made, error) {
	if err := guestinit.AddEntropy(c.Secret); err != nil {
		return nil, err
	}
	if err := guestinit.SetClock(c.Now); err != nil {
		return nil, err
	}
	if err := guestinit.FreeDevices(); err != nil {
		return nil, err
	}
	return c.Config.setUp()
}
