package incus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"aether/driver/daemon"
	"aether/driver/guestagent"
	"aether/sandbox"
)

// workload is a sandbox: a container, with whose first process everything in it ends.
type workload struct {
	engine   *engine
	name     string // the container's
	limits   sandbox.Limits
	way      *way
	counters daemon.Counters
	life     context.Context // over when somebody asked for the end
	end      context.CancelFunc
	daemon.Link
}

func newWorkload(e *engine, name string, limits sandbox.Limits) *workload {
	b := &workload{engine: e, name: name, limits: limits}
	b.life, b.end = context.WithCancel(context.Background())
	return b
}

// boot starts a container and meets the guest service in it.
func (b *workload) boot(ctx context.Context, s guestagent.Settings, n sandbox.Network) (err error) {
	api := b.engine.api
	if err := api.finish(ctx, http.MethodPut, instancePath(b.name)+"/state", change{Action: "start"}); err != nil {
		return b.lastWords(ctx, err)
	}
	now, err := api.state(ctx, b.name)
	if err != nil {
		return err
	}
	if b.way, b.counters, err = openWay(now.Pid, b.name); err != nil {
		return b.lastWords(ctx, err)
	}
	if err := b.meet(ctx, s); err != nil {
		return b.lastWords(ctx, err)
	}
	if err := b.Connect(ctx, b.engine.network, n, b.name, b.pid); err != nil {
		return err
	}
	return b.Settle(ctx, b.way.Dial, b.engine.Fleet.Logger)
}

// pid is that of the container's first process.
func (b *workload) pid(ctx context.Context) (int, error) {
	now, err := b.engine.api.state(ctx, b.name)
	return now.Pid, err
}

const (
	// meetAgain is how long to wait for a service that does not listen yet.
	meetAgain = 5 * time.Millisecond
	// meetChecks is after how many such waits the daemon is asked whether the
	// container still runs.
	meetChecks = 50
)

// meet tells the guest service its settings, as soon as it listens.
func (b *workload) meet(ctx context.Context, s guestagent.Settings) error {
	for try := 1; ; try++ {
		err := guestagent.Apply(ctx, b.way.Dial, s)
		if !early(err) {
			return err
		}
		if try%meetChecks == 0 {
			if now, err := b.engine.api.state(ctx, b.name); err != nil || now.Code != stateRunning {
				return errors.Join(errors.New("the guest service ended at once"), err)
			}
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(meetAgain):
		}
	}
}

const (
	// maxLog is what is read of a container's log, and maxLines is told of it: the
	// first errors are the causes of the others.
	maxLog   = 64 << 10
	maxLines = 4
)

// lastWords adds to a failure what the container's console and log have to say.
func (b *workload) lastWords(ctx context.Context, err error) error {
	var said []string
	for _, file := range []string{"/console", "/logs/lxc.log"} {
		text, failed := b.engine.api.read(ctx, instancePath(b.name)+file, maxLog)
		if failed != nil {
			continue // it is only more about a failure that is told anyway
		}
		for line := range strings.Lines(text) {
			if file == "/console" || strings.Contains(line, " ERROR ") {
				said = append(said, strings.TrimSpace(line))
			}
		}
	}
	if len(said) == 0 {
		return err
	}
	words := strings.Join(said[:min(len(said), maxLines)], "; ")
	return &sandbox.Error{Class: sandbox.ClassOf(explain(err)), Op: "guest service", Reason: words[:min(len(words), maxWords)], Err: err}
}

// discard removes a sandbox that did not come up.
func (b *workload) discard() error {
	b.end()
	err := b.Leave()
	if b.way != nil {
		err = errors.Join(err, b.way.Close())
	}
	return errors.Join(err, b.engine.api.discard(b.name))
}

// Kill implements guestagent.Workload. Wait does the work, for it takes the daemon the
// better part of a second.
func (b *workload) Kill() error {
	b.end()
	return nil
}

// Wait implements guestagent.Workload. What it cannot stop, Release does, or tells.
func (b *workload) Wait() sandbox.Exit {
	exit := b.watch(b.life)
	ctx, cancel := context.WithTimeout(context.Background(), daemon.KillTime)
	defer cancel()
	_ = b.engine.api.stop(ctx, b.name)
	return exit
}

// watch returns when the container has ended, or nobody can know any more, or its
// life is over. Its containers outlive a daemon: as long as the service is there,
// the daemon is not even asked.
func (b *workload) watch(life context.Context) sandbox.Exit {
	var away time.Time // since when the daemon is
	for life.Err() == nil {
		if b.listen(life) {
			away = time.Time{}
			continue
		}
		now, err := b.engine.api.state(life, b.name)
		switch {
		case gone(err):
			return sandbox.Exit{Cause: sandbox.Crashed, Detail: "the container is gone"}
		case err != nil && away.IsZero():
			away = time.Now()
		case err != nil && time.Since(away) > daemon.Patience:
			return sandbox.Exit{Cause: sandbox.Crashed, Detail: "the daemon went away: " + err.Error()}
		case err == nil && (now.Code == stateStopped || now.Code == stateError):
			return b.crashed(life)
		case err == nil:
			away = time.Time{}
		}
		_ = daemon.Pause(life) // which the loop asks again
	}
	return sandbox.Exit{Cause: sandbox.Destroyed}
}

// listen returns when a connection to the service, on which nothing is said, has
// ended. The service ends such connections after a while, and all with its end.
func (b *workload) listen(life context.Context) (connected bool) {
	conn, err := b.way.Dial(life)
	if err != nil {
		return false
	}
	defer conn.Close()
	defer context.AfterFunc(life, func() { conn.Close() })()
	began := time.Now()
	_, _ = conn.Read(make([]byte, 1)) // how it ends does not matter
	if time.Since(began) < daemon.Again {
		_ = daemon.Pause(life)
	}
	return true
}

// crashed says why a container has ended that nobody asked to.
func (b *workload) crashed(ctx context.Context) sandbox.Exit {
	err := b.lastWords(ctx, errors.New("the guest service ended"))
	return sandbox.Exit{Cause: sandbox.Crashed, Detail: err.Error()}
}

// Release implements guestagent.Workload.
func (b *workload) Release(ctx context.Context) error {
	b.end()
	return errors.Join(b.Leave(), b.engine.api.remove(ctx, b.name))
}

// Stats implements guestagent.Workload.
func (b *workload) Stats(ctx context.Context) (stats sandbox.Stats, err error) {
	now, err := b.engine.api.state(ctx, b.name)
	if err != nil {
		return stats, fmt.Errorf("incus: stats: %w", explain(err))
	}
	stats = sandbox.Stats{MemoryBytes: daemon.Known(now.Memory.Usage), MemoryPeakBytes: daemon.Known(now.Memory.Peak), Processes: daemon.Known(now.Procs),
		CPUTime: (*time.Duration)(daemon.Known(now.CPU.Usage)), OOMKills: b.counters.OOMKills()}
	if b.limits.Processes > 0 {
		stats.ForksDenied = b.counters.ForksDenied()
	}
	return stats, nil
}

// Pause implements daemon.Workload.
func (b *workload) Pause(ctx context.Context) error { return b.order(ctx, "freeze") }

// Resume implements daemon.Workload.
func (b *workload) Resume(ctx context.Context) error { return b.order(ctx, "unfreeze") }

// order is carried out to its end, so that what is known of the state stays true.
func (b *workload) order(ctx context.Context, action string) error {
	return explain(b.engine.api.finish(ctx, http.MethodPut, instancePath(b.name)+"/state", change{Action: action}))
}
