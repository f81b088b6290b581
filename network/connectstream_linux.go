package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"aether/internal/network/control"
	"aether/sandbox"
)

// OpenStream has a sandbox make a device inside of it, or keep it if it has this very one
// (described in JSON, as the guest service of a machine takes it: pid1.JoinNetwork), and gives a stream by which its packets come and go from now on, and not over any other
// before it: a socket that does not wait, as netdev.Stream reads it.
type OpenStream func(ctx context.Context, device []byte) (*os.File, error)

// ConnectStream is Connect for a sandbox of the egress mode that has no net namespace on
// this host, as a machine. The way to its device is opened again, in a goroutine of its
// own, when the gateways' process had to be started again. The key is that of the sandbox
// that this one goes on from, or nil.
func (s *Service) ConnectStream(ctx context.Context, n sandbox.Network, key AuthorityKey, open OpenStream) (*Attached, error) {
	policy, err := s.Compile(ctx, n)
	if err != nil {
		return nil, err
	}
	a, err := s.reserve()
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	a.open = open
	a.mu.Unlock()
	err = a.begin(ctx, n, policy, key)
	if err == nil {
		err = a.Replug(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// Replug opens the way to a device anew, for one who knows that it was cut. Connections
// stay. A sandbox whose device is on this host has no such way, nor has nil.
func (a *Attached) Replug(ctx context.Context) error {
	if a == nil || a.open == nil {
		return nil
	}
	a.plugging.Lock()
	defer a.plugging.Unlock()
	return a.plug(ctx)
}

// Mend is Replug where something is known to be wrong.
func (a *Attached) Mend(ctx context.Context) error {
	if a == nil || a.open == nil {
		return nil
	}
	a.plugging.Lock()
	defer a.plugging.Unlock()
	a.mu.Lock()
	wrong := a.unplugged
	a.mu.Unlock()
	if !wrong {
		return nil
	}
	return a.plug(ctx)
}

// plug opens the way. That it failed is noted.
func (a *Attached) plug(ctx context.Context) error {
	err := a.tryPlug(ctx)
	if err != nil {
		a.wasUnplugged(err.Error())
		return fmt.Errorf("network: %w", err)
	}
	return nil
}

func (a *Attached) tryPlug(ctx context.Context) error {
	device, err := json.Marshal(a.tap)
	if err != nil {
		return err
	}
	file, err := a.open(ctx, device)
	if err != nil {
		return err
	}
	defer file.Close()
	a.mu.Lock()
	a.plugged, a.unplugged = true, false // or one that dies from now on would not be noticed
	a.mu.Unlock()
	for range 2 { // one that dies meanwhile is started again, with this sandbox
		var p *process
		if p, _, err = a.service.running(); err == nil {
			_, err = p.ask(ctx, a.request(control.Plug), file)
		}
		if !errors.Is(err, errGone) {
			break
		}
	}
	return err
}

// replugTime bounds how long a sandbox may take to open a way that nobody waits for.
const replugTime = 30 * time.Second

// replugLater is for a sandbox that a new process has, without a way to its device.
func (a *Attached) replugLater() {
	a.mu.Lock()
	later := a.plugged
	a.unplugged = later
	a.mu.Unlock()
	if !later {
		return // whoever connects it is about to
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), replugTime)
		defer cancel()
		if err := a.Mend(ctx); err != nil {
			a.service.log.Warn("network: a sandbox has none until it is paused and resumed", "err", err)
		}
	}()
}

// wasUnplugged notes why there is no way to the sandbox's device any more, where its owner
// looks for what became of its connections.
func (a *Attached) wasUnplugged(why string) {
	a.mu.Lock()
	a.unplugged = true
	a.mu.Unlock()
	a.service.log.Debug("network: the way to a sandbox's device has ended", "why", why)
	a.log.add(sandbox.NetworkDecision{Time: time.Now(), Verdict: sandbox.VerdictFailed, Kind: "device", Reason: fmt.Sprintf("the way to the sandbox's device has ended: %.300s", why)})
}
