package cli

import (
	"context"
	"errors"
	"time"

	"aether/engine"
	"aether/sandbox"
)

const (
	// mostLook is how often at least it is looked whether a daemon has anything to do.
	mostLook = time.Second
	// stateTime is how long a daemon that was started in the background waits for the
	// one before it, which has begun to end.
	stateTime = 15 * time.Second
	stateWait = 20 * time.Millisecond
)

// idle is closed when the daemon has had nothing to do for as long as it may. From then
// on it takes no work, and whoever comes starts the next one.
func (d *daemon) idle(ctx context.Context) <-chan struct{} {
	over := make(chan struct{})
	if d.flags.idleExit > 0 {
		go d.watchIdle(ctx, over)
	}
	return over
}

// watchIdle counts how often it finds nothing to do, and not how much time has passed: on a
// host that was suspended, or that gives nobody a processor for a while, those who want
// something have no more of that time than the daemon.
func (d *daemon) watchIdle(ctx context.Context, over chan<- struct{}) {
	every := min(d.flags.idleExit/4+1, mostLook)
	look := time.NewTicker(every)
	defer look.Stop()
	for found := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if found++; d.busy(ctx) {
			found = 0
		}
		if found*every >= d.flags.idleExit && d.server.DrainIdle() {
			close(over)
			return
		}
	}
}

// busy says that somebody is connected, or that something would be lost or wait.
func (d *daemon) busy(ctx context.Context) bool {
	if !d.server.Idle() {
		return true
	}
	self := engine.Caller{Operator: true, Name: "daemon"}
	page, err := d.engine.List(ctx, self, engine.Query{States: []engine.State{engine.Running, engine.Paused}, Limit: 1})
	templates, failed := d.engine.ListTemplates(ctx, self, engine.TemplateQuery{Limit: 1})
	if err = errors.Join(err, failed); err != nil {
		d.log.Error("whether anything is left is not known", "err", err)
	}
	return err != nil || len(page.Sandboxes) > 0 || len(templates.Templates) > 0
}

// openEngine opens the engine. One that was started in the background waits for the
// state directory while another program has it.
func (d *daemon) openEngine(ctx context.Context, opts engine.Options) (*engine.Engine, error) {
	if d.flags.idleExit == 0 {
		return engine.Open(opts)
	}
	ctx, cancel := context.WithTimeout(ctx, stateTime)
	defer cancel()
	for {
		e, err := engine.Open(opts)
		if sandbox.ClassOf(err) != sandbox.Conflict {
			return e, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(stateWait):
		}
	}
}
