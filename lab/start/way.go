package start

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"aether/engine"
	"aether/guest"
	"aether/lab"
	"aether/lab/run"
	"aether/sandbox"
)

// way is one by which a system comes to a fresh sandbox. take may be called by many at
// once, and removes what it made.
type way struct {
	system, name string
	take         func(context.Context) (lab.Sample, error)
	// refill, if it is not nil, waits until what was taken is there again: it is made in the
	// background, and would fall on whoever has the next turn.
	refill func(context.Context) error
	// absent is why there is no such way.
	absent string
}

// field is everything that ways need while they are measured.
type field struct {
	opts Options
	undo []func() error
}

func (f *field) later(undo func() error) { f.undo = append(f.undo, undo) }

func (f *field) close() (err error) {
	for i := len(f.undo) - 1; i >= 0; i-- {
		err = errors.Join(err, f.undo[i]())
	}
	return err
}

// ways are those of one system. What is prepared for them ends with the field.
func (f *field) ways(ctx context.Context, s lab.System) []way {
	list := []way{{system: s.Name, name: run.Cold, take: func(ctx context.Context) (lab.Sample, error) { return cold(ctx, s.Driver) }}}
	for _, other := range []struct {
		name    string
		prepare func(context.Context, sandbox.Driver) (way, error)
	}{{run.Restore, f.restores}, {run.Fork, f.forks}, {run.Claim, f.claims}} {
		w, err := f.prepared(ctx, s.Driver, other.prepare)
		if err != nil {
			w.absent = err.Error()
		}
		w.system, w.name = s.Name, other.name
		list = append(list, w)
	}
	return list
}

// prepared bounds a preparation.
func (f *field) prepared(ctx context.Context, d sandbox.Driver, prepare func(context.Context, sandbox.Driver) (way, error)) (way, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, f.opts.Prepare, fmt.Errorf("preparing it took longer than %v", f.opts.Prepare))
	defer cancel()
	w, err := prepare(ctx, d)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return w, err
}

func cold(ctx context.Context, d sandbox.Driver) (lab.Sample, error) {
	w := lab.StartWatch()
	made, err := d.Create(ctx, sandbox.Spec{})
	w.Lap(lapCreate)
	if err != nil {
		return lab.Sample{}, err
	}
	said, err := finish(ctx, w, made)
	if err == nil {
		splitCreate(&w.Sample, said)
	}
	return w.Sample, err
}

// finish runs the first command and ends the sandbox.
func finish(ctx context.Context, w *lab.Watch, made sandbox.Instance) (string, error) {
	said, err := first(ctx, w, made)
	err = errors.Join(err, made.Destroy(context.WithoutCancel(ctx)))
	w.Lap(lapDestroy)
	return said, err
}

// source is a sandbox with a program that waits, to be kept and forked.
func (f *field) source(ctx context.Context, d sandbox.Driver) (sandbox.Instance, error) {
	made, err := d.Create(ctx, sandbox.Spec{})
	if err != nil {
		return nil, err
	}
	f.later(func() error { return made.Destroy(context.Background()) })
	client := guest.ClientFor(made, guest.ClientOptions{})
	defer client.Close()
	_, err = client.StartDetached(ctx, guest.Cmd{Path: "sleep", Args: []string{"infinity"}})
	return made, err
}

// restores keeps a sandbox once; each sample is one more made of that.
func (f *field) restores(ctx context.Context, d sandbox.Driver) (w way, err error) {
	restorer, ok := d.(sandbox.Restorer)
	if !ok || restorer.RestoreFidelity() == sandbox.Filesystem {
		return w, errors.New(d.Info().Name + " restores files only, into a sandbox that starts cold")
	}
	source, err := f.source(ctx, d)
	if err != nil {
		return w, err
	}
	dir, err := os.MkdirTemp(f.opts.Dir, "lab-restore-")
	if err != nil {
		return w, err
	}
	f.later(func() error { return os.RemoveAll(dir) })
	if err := source.(sandbox.Snapshotter).Snapshot(ctx, dir, sandbox.Checkpoint); err != nil {
		return w, err
	}
	w.take = func(ctx context.Context) (lab.Sample, error) {
		w := lab.StartWatch()
		made, err := restorer.Restore(ctx, dir, sandbox.Checkpoint, sandbox.Spec{})
		w.Lap("restore")
		if err != nil {
			return lab.Sample{}, err
		}
		_, err = finish(ctx, w, made)
		return w.Sample, err
	}
	return w, nil
}

// forks are of one source.
func (f *field) forks(ctx context.Context, d sandbox.Driver) (w way, err error) {
	if d.Info().Verbs.Fork == "" {
		return w, errors.New(d.Info().Name + " cannot fork a running sandbox")
	}
	source, err := f.source(ctx, d)
	if err != nil {
		return w, err
	}
	forker, ok := source.(sandbox.Forker)
	if !ok {
		return w, errors.New(d.Info().Name + " cannot fork a running sandbox on this host")
	}
	w.take = func(ctx context.Context) (lab.Sample, error) {
		w := lab.StartWatch()
		made, err := forker.Fork(ctx, make([]sandbox.Spec, 1))
		w.Lap("fork")
		if err != nil {
			return lab.Sample{}, err
		}
		_, err = finish(ctx, w, made[0])
		return w.Sample, err
	}
	return w, nil
}

const tenant, template = "lab", "lab"

// claims are of a pool that an engine keeps full.
func (f *field) claims(ctx context.Context, d sandbox.Driver) (w way, err error) {
	if d.Info().Verbs.Fork == "" {
		return w, errors.New("a pool is made of forks, and " + d.Info().Name + " cannot fork a running sandbox")
	}
	// Why a pool is not filled is asked for, and need not be logged.
	e := engine.New(engine.Options{Logger: slog.New(slog.DiscardHandler)})
	f.later(func() error { return e.Close(context.Background()) })
	if _, err := e.Prepare(ctx, d, engine.Recipe{Name: template, Idle: true}, nil); err != nil {
		return w, err
	}
	pool, err := e.Pool(tenant, template, engine.PoolOptions{Size: f.opts.Crowd})
	if err != nil {
		return w, err
	}
	w.refill = func(ctx context.Context) error { return awaitReady(ctx, pool, f.opts.Crowd) }
	w.take = func(ctx context.Context) (lab.Sample, error) {
		w := lab.StartWatch()
		child, err := pool.Claim(ctx, tenant)
		w.Lap("claim")
		if err != nil {
			return lab.Sample{}, err
		}
		_, err = firstBy(ctx, w, child.Client())
		err = errors.Join(err, child.Destroy(ctx))
		w.Lap(lapDestroy)
		return w.Sample, err
	}
	return w, w.refill(ctx)
}

// awaitReady waits until so many are ready.
func awaitReady(ctx context.Context, pool *engine.Pool, n int) error {
	for pool.Stats().Ready < n {
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), pool.Stats().Err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}
