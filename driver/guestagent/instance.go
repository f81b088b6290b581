package guestagent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"aether/sandbox"
)

// CleanupTime bounds what is done to remove a sandbox, whatever its caller's
// context says.
const CleanupTime = 20 * time.Second

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
	driver   string
	id       string
	workload Workload
	dialer   Dialer
	timer    *time.Timer
	gone     func()
	log      *slog.Logger

	mu     sync.Mutex
	paused bool
	cause  sandbox.Cause // why it is being ended, if it is
	ended  chan struct{} // closed when nothing is left
	exit   sandbox.Exit
	err    error // what could not be ended or removed
}

var _ sandbox.Instance = (*Instance)(nil)

// New makes an Instance of a sandbox that runs. From now on only the Instance
// touches the Workload.
func New(driver, id string, spec sandbox.Spec, body Workload, dialer Dialer) *Instance {
	i := &Instance{driver: driver, id: id, workload: body, dialer: dialer, ended: make(chan struct{})}
	if life := spec.Timeouts.Lifetime; life > 0 {
		i.timer = time.AfterFunc(life, func() { i.end(sandbox.Expired) })
	}
	return i
}

// watch waits for the end, whatever brings it, and removes what is left.
func (i *Instance) watch() {
	exit := i.workload.Wait()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.timer != nil {
		i.timer.Stop()
	}
	if i.exit = exit; i.cause != "" {
		i.exit = sandbox.Exit{Cause: i.cause}
	}
	ctx, cancel := context.WithTimeout(context.Background(), CleanupTime)
	defer cancel()
	i.err = errors.Join(i.err, i.dialer.Close(), i.workload.Release(ctx))
	i.gone()
	if i.err != nil && i.cause != sandbox.Destroyed { // else Destroy says so
		i.log.Error(i.driver+": a sandbox that has ended could not be removed", "sandbox", i.id, "cause", i.exit.Cause, "err", i.err)
	}
	close(i.ended)
}

// ID implements sandbox.Instance.
func (i *Instance) ID() string { return i.id }

// Alive is NotFound once the sandbox has ended.
func (i *Instance) Alive() error {
	select {
	case <-i.ended:
		return &sandbox.Error{Class: sandbox.NotFound, Op: i.driver + ": " + i.id, Reason: "the sandbox has ended"}
	default:
		return nil
	}
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

// Wait implements sandbox.Instance.
func (i *Instance) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-i.ended:
		return i.exit, nil
	case <-ctx.Done():
		return sandbox.Exit{}, ctx.Err()
	}
}

// Destroy implements sandbox.Instance.
func (i *Instance) Destroy(context.Context) error {
	i.end(sandbox.Destroyed)
	select {
	case <-i.ended:
		return i.err
	case <-time.After(CleanupTime + time.Second):
		return &sandbox.Error{Class: sandbox.Timeout, Op: i.driver + ": destroy " + i.id, Reason: "its processes have not ended", Retry: true}
	}
}

// end begins the end; the first cause is the one that counts.
func (i *Instance) end(cause sandbox.Cause) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.Alive() != nil {
		return
	}
	if i.cause == "" {
		i.cause = cause
	}
	i.err = errors.Join(i.err, i.workload.Kill())
}

// SetPaused changes between paused and running by calling change. Errors:
// Conflict where it is so already, NotFound once the sandbox is ending.
func (i *Instance) SetPaused(paused bool, change func() error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.Alive(); err != nil {
		return err
	}
	op := i.driver + ": pause " + i.id
	if i.cause != "" {
		// Paused now, it could not die.
		return &sandbox.Error{Class: sandbox.NotFound, Op: op, Reason: "the sandbox is ending"}
	}
	if i.paused == paused {
		return &sandbox.Error{Class: sandbox.Conflict, Op: op, Reason: map[bool]string{true: "it is paused", false: "it is not paused"}[paused]}
	}
	if err := change(); err != nil {
		return err
	}
	i.paused = paused
	return nil
}
