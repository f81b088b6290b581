package guestagent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"

	"aether/driver/lifetime"
	"aether/sandbox"
)

// Workload is a sandbox as its driver sees it.
type Workload interface {
	// Stats says what the sandbox uses.
	Stats(context.Context) (sandbox.Stats, error)
	// Kill begins the end of everything inside, also of what is paused. It may be
	// called again, and after the end.
	Kill() error
	// Wait returns when nothing inside runs any more, and says why in case nobody
	// asked for it. It is called once.
	Wait() sandbox.Exit
	// Release gives back everything that was acquired. It is called once, after
	// Wait.
	Release(context.Context) error
}

// Dialer connects to the guest service. Close ends all connections.
type Dialer interface {
	Dial(context.Context) (net.Conn, error)
	Close() error
}

// Instance is a living sandbox with its guest service inside.
type Instance struct {
	lifetime.Lifetime
	workload Workload
	dialer   Dialer

	verbs sync.Mutex
}

var _ sandbox.Instance = (*Instance)(nil)

// New makes an Instance of a sandbox that runs. From now on only the Instance
// touches the Workload.
func New(driver, id string, spec sandbox.Spec, body Workload, dialer Dialer) *Instance {
	i := &Instance{workload: body, dialer: dialer}
	i.Begin(driver, id, func(bool) error { return body.Kill() })
	i.Limit(spec.Timeouts.Lifetime)
	return i
}

// watch waits for the end, whatever brings it, and removes what is left.
func (i *Instance) watch(gone func(), log *slog.Logger) {
	exit := i.workload.Wait()
	i.Ended(func() sandbox.Exit { return exit }, func() error {
		defer gone()
		ctx, cancel := context.WithTimeout(context.Background(), lifetime.CleanupTime)
		defer cancel()
		return errors.Join(i.dialer.Close(), i.workload.Release(ctx))
	}, log)
}

// Dial implements sandbox.Instance.
func (i *Instance) Dial(ctx context.Context) (net.Conn, error) {
	if err := i.Alive(); err != nil {
		return nil, err
	}
	return i.dialer.Dial(ctx)
}

// Stats implements sandbox.Instance.
func (i *Instance) Stats(ctx context.Context) (sandbox.Stats, error) {
	if err := i.Alive(); err != nil {
		return sandbox.Stats{}, err
	}
	stats, err := i.workload.Stats(ctx)
	if err != nil && i.Alive() != nil {
		return sandbox.Stats{}, i.Alive() // it ended meanwhile
	}
	return stats, err
}

// Verb does one of pause, resume and snapshot, one at a time. The sandbox can be ended
// meanwhile.
func (i *Instance) Verb(do func() error) error {
	i.verbs.Lock()
	defer i.verbs.Unlock()
	return do()
}

// While does something, as a part of a Verb, while the sandbox is paused, or while it runs.
// Afterwards it is as it was before, whatever became of the caller.
func (i *Instance) While(ctx context.Context, paused bool, set func(context.Context, bool) error, do func() error) (err error) {
	if i.Paused() == paused {
		return do()
	}
	if err := set(ctx, paused); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifetime.CleanupTime)
		defer cancel()
		err = errors.Join(err, set(ctx, !paused))
	}()
	return do()
}
