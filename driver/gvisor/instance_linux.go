package gvisor

import (
	"context"
	"sync"
	"time"

	"aether/driver/command"
	"aether/sandbox"
)

// instance is a sandbox that can be paused, kept and forked.
type instance struct {
	*command.Instance
	driver   *Driver
	hostname string // the first one's of those that it was restored from

	// verbs are pause, resume and snapshot, one at a time.
	verbs sync.Mutex
}

var (
	_ sandbox.Pauser      = (*instance)(nil)
	_ sandbox.Snapshotter = (*instance)(nil)
	_ sandbox.Forker      = (*instance)(nil)
)

func (d *Driver) instance(i *command.Instance, hostname string) *instance {
	return &instance{Instance: i, driver: d, hostname: hostname}
}

// pauseTime bounds a pause, during which the sandbox cannot be destroyed.
const pauseTime = 10 * time.Second

// Pause implements sandbox.Pauser. gVisor's kernel stops its tasks, which needs no
// cgroup.
func (i *instance) Pause(ctx context.Context) error { return i.setPaused(ctx, true, "pause") }

// Resume implements sandbox.Pauser.
func (i *instance) Resume(ctx context.Context) error { return i.setPaused(ctx, false, "resume") }

func (i *instance) setPaused(ctx context.Context, paused bool, command string) error {
	i.verbs.Lock()
	defer i.verbs.Unlock()
	return i.setPausedLocked(ctx, paused, command)
}

// setPausedLocked is for those who hold verbs.
func (i *instance) setPausedLocked(ctx context.Context, paused bool, command string) error {
	return i.SetPaused(paused, func() error {
		ctx, cancel := context.WithTimeout(ctx, pauseTime)
		defer cancel()
		return i.tell(ctx, command, i.ID())
	})
}

// tell has runsc do something with the sandbox.
func (i *instance) tell(ctx context.Context, args ...string) error {
	return i.Enter(ctx, nil, append([]string{"--root", stateDir(i.StageDir())}, args...)...)
}
