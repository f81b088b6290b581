package docker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"aether/driver/daemon"
	"aether/driver/guestagent"
	"aether/guest/channel"
	"aether/guest/pid1"
	"aether/sandbox"
)

// workload is a sandbox: a container, with whose first process everything in it ends.
type workload struct {
	engine   *engine
	limits   sandbox.Limits
	id       string // the container's
	pid      int    // of its first process, as the daemon sees it
	stream   *stream
	counters daemon.Counters
	lost     <-chan struct{} // closed when the streams have ended
	daemon.Link
}

// boot makes and starts a container and meets the guest service in it. A failure
// leaves nothing.
func (b *workload) boot(ctx context.Context, what configuration, s guestagent.Settings, n sandbox.Network) (_ *channel.Dialer, err error) {
	if b.id, err = b.engine.makeContainer(ctx, what); err != nil {
		return nil, err
	}
	dialer, err := b.start(ctx, s)
	if err == nil {
		if err = b.join(ctx, n, dialer); err != nil {
			err = errors.Join(err, dialer.Close(), b.stream.Close())
		}
	}
	if err != nil {
		return nil, errors.Join(err, b.Leave(), b.engine.discard(b.id))
	}
	return dialer, nil
}

func (b *workload) join(ctx context.Context, n sandbox.Network, dialer *channel.Dialer) error {
	if err := b.Connect(ctx, b.engine.network, n, b.id, func(context.Context) (int, error) { return b.pid, nil }); err != nil {
		return err
	}
	return b.Settle(ctx, dialer.Dial, b.engine.Fleet.Logger)
}

// Settle implements daemon.Workload. The name server is set already, in a file of the
// daemon's.
func (b *workload) Settle(ctx context.Context, dial pid1.Dial, log *slog.Logger) error {
	return guestagent.Trust(ctx, b.Attached(), guestagent.Inside(dial), log)
}

func (b *workload) start(ctx context.Context, s guestagent.Settings) (_ *channel.Dialer, err error) {
	if b.stream, err = b.engine.attach(ctx, b.id); err != nil {
		return nil, err
	}
	if err := b.engine.api.post(ctx, b.path("/start"), nil); err != nil {
		return nil, errors.Join(err, b.stream.Close())
	}
	dialer, err := guestagent.Meet(ctx, b.stream, s)
	if err != nil {
		return nil, b.stream.said.Explain(err)
	}
	state, err := b.inspect(ctx)
	if err != nil {
		return nil, errors.Join(err, dialer.Close())
	}
	b.pid = state.Pid
	b.counters, _ = daemon.FindCounters(b.pid, b.id)
	b.lost = dialer.Done()
	return dialer, nil
}

// path is what the daemon knows of the container.
func (b *workload) path(what string) string { return "/containers/" + b.id + what }

func (b *workload) inspect(ctx context.Context) (state, error) {
	var answer struct{ State state }
	err := b.engine.api.get(ctx, b.path("/json"), nil, &answer)
	return answer.State, err
}

// Kill implements guestagent.Workload. The daemon lets a paused container go on to die.
func (b *workload) Kill() error {
	ctx, cancel := context.WithTimeout(context.Background(), daemon.KillTime)
	defer cancel()
	err := b.engine.api.post(ctx, b.path("/kill"), url.Values{"signal": {"KILL"}})
	if gone(err) || conflicts(err) {
		return nil // it has ended
	}
	return explain(err)
}

// Wait implements guestagent.Workload. Those who cannot reach their daemon any more cannot
// know; one that stays away is the end of a sandbox that nobody can reach.
func (b *workload) Wait() sandbox.Exit {
	for {
		err := b.await()
		if err == nil || gone(err) {
			return b.exit()
		}
		ctx, cancel := context.WithTimeout(context.Background(), daemon.Patience)
		away := b.engine.back(ctx)
		cancel()
		if away != nil {
			return sandbox.Exit{Cause: sandbox.Crashed, Detail: "the daemon went away: " + err.Error()}
		}
	}
}

// back waits for a daemon that went away.
func (e *engine) back(ctx context.Context) error {
	for {
		err := e.api.ping(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(daemon.Again)
	}
}

// await returns when the container does not run any more, or cannot be waited for.
// One whose streams were cut off is of no use to anybody and is ended: its daemon
// may have been restarted under it.
func (b *workload) await() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		var answer struct{ StatusCode int }
		ended <- b.engine.api.ask(ctx, http.MethodPost, b.path("/wait"), url.Values{"condition": {"not-running"}}, nil, &answer)
	}()
	for lost := b.lost; ; lost = nil {
		select {
		case err := <-ended:
			return err
		case <-lost:
			if err := b.Kill(); err != nil {
				return err
			}
		}
	}
}

// exit says why a container has ended.
func (b *workload) exit() sandbox.Exit {
	ctx, cancel := context.WithTimeout(context.Background(), daemon.KillTime)
	defer cancel()
	state, err := b.inspect(ctx)
	switch {
	case err != nil:
		return sandbox.Exit{Cause: sandbox.Crashed, Detail: "the container is gone: " + err.Error()}
	case state.OOMKilled:
		return sandbox.Exit{Cause: sandbox.OutOfMemory, Detail: "the memory limit was reached"}
	}
	return sandbox.Exit{Cause: sandbox.Crashed, Detail: fmt.Sprintf("the guest service ended (code %d): %s%s", state.ExitCode, state.Error, b.stream.said.String())}
}

// Release implements guestagent.Workload.
func (b *workload) Release(ctx context.Context) error {
	return errors.Join(b.stream.Close(), b.Leave(), remove(ctx, b.engine.api, b.id))
}

// Stats implements guestagent.Workload.
func (b *workload) Stats(ctx context.Context) (stats sandbox.Stats, err error) {
	var u usage
	if err := b.engine.api.get(ctx, b.path("/stats"), url.Values{"stream": {"false"}, "one-shot": {"true"}}, &u); err != nil {
		return stats, fmt.Errorf("docker: stats: %w", explain(err))
	}
	stats = sandbox.Stats{MemoryBytes: daemon.Known(u.Memory.Usage), MemoryPeakBytes: daemon.Known(u.Memory.Max),
		Processes: daemon.Known(u.Pids.Current), CPUTime: (*time.Duration)(daemon.Known(u.CPU.Usage.Total))}
	stats.OOMKills = b.counters.OOMKills()
	if b.limits.Processes > 0 {
		stats.ForksDenied = b.counters.ForksDenied()
	}
	return stats, nil
}

// Pause implements daemon.Workload.
func (b *workload) Pause(ctx context.Context) error {
	return explain(b.engine.api.post(ctx, b.path("/pause"), nil))
}

// Resume implements daemon.Workload.
func (b *workload) Resume(ctx context.Context) error {
	return explain(b.engine.api.post(ctx, b.path("/unpause"), nil))
}
