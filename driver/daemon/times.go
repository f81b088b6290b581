package daemon

import (
	"context"
	"time"

	"aether/driver/lifetime"
)

const (
	// BootTime bounds how long a sandbox may take whose caller set no bound, and how
	// long one request to the daemon may.
	BootTime = 60 * time.Second
	// ProbeTime bounds a probe.
	ProbeTime = 1900 * time.Millisecond
	// KillTime bounds one attempt to end a container.
	KillTime = lifetime.CleanupTime / 2
	// Patience is how long a daemon may be away, as when it is restarted, before a
	// sandbox that needs it is given up.
	Patience = 5 * time.Second
	// Again is how long to wait before something is tried again.
	Again = 100 * time.Millisecond

	// leastToAnswer and mostToAnswer bound how long a daemon may take to say that it is there:
	// a busy host has it wait.
	leastToAnswer = 1500 * time.Millisecond
	mostToAnswer  = 5 * time.Second
	// dialTime is how long its socket is asked why it cannot be used.
	dialTime = 150 * time.Millisecond
)

// Pause waits before something is tried again, or fails with the context.
func Pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(Again):
		return nil
	}
}
