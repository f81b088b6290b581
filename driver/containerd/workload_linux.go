package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"aether/driver/daemon"
	"aether/driver/guestagent"
	"aether/driver/lifetime"
	"aether/guest/channel"
	"aether/sandbox"
)

// workload is a sandbox: a container, with whose first process everything in it ends.
type workload struct {
	engine *engine
	id     string // the container's
	dir    string // what is written inside, and the pipes
	pipes  *pipes
	killed atomic.Bool
	daemon.Link
}

// Parts of a sandbox's directory.
const (
	upperName = "upper"
	workName  = "work"
	pipesName = "pipes"
)

// boot makes and starts a container and meets the guest service in it. A failure
// leaves nothing.
func (b *workload) boot(ctx context.Context, spec sandbox.Spec, config *specs.Spec, layers []string, s guestagent.Settings) (*channel.Dialer, error) {
	dialer, err := b.begin(ctx, spec, config, layers, s)
	if err == nil {
		return dialer, nil
	}
	clean, cancel := context.WithTimeout(context.Background(), lifetime.CleanupTime)
	defer cancel()
	return nil, errors.Join(err, b.Release(clean))
}

func (b *workload) begin(ctx context.Context, spec sandbox.Spec, config *specs.Spec, layers []string, s guestagent.Settings) (*channel.Dialer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := b.furnish(); err != nil {
		return nil, err
	}
	// The caller's impatience does not cut a request off: nobody would know what
	// the daemon made of it.
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), daemon.BootTime)
	defer cancel()
	d, labels := b.engine.client, map[string]string{ownerLabel: b.engine.Owner.Label, idLabel: spec.ID}
	if err := d.register(whole, b.id, b.engine.opts.shim(), labels, config); err != nil {
		return nil, err
	}
	if err := d.run(whole, b.id, b.pipes, overlayOptions(layers, b.part(upperName), b.part(workName))); err != nil {
		return nil, err
	}
	dialer, err := guestagent.Meet(ctx, b.pipes, s)
	if err != nil {
		return nil, b.pipes.said.Explain(err)
	}
	if err := b.Connect(ctx, b.engine.opts.Network, spec.Network, b.id, b.pid); err != nil {
		return nil, errors.Join(err, dialer.Close())
	}
	if err := b.Settle(ctx, dialer.Dial, b.engine.Fleet.Logger); err != nil {
		return nil, errors.Join(err, dialer.Close())
	}
	return dialer, nil
}

// pid is that of the container's first process.
func (b *workload) pid(ctx context.Context) (int, error) {
	answer, err := b.engine.client.task(ctx, "Get", b.id)
	if err != nil {
		return 0, err
	}
	process, err := answer.inner(1)
	return int(process.numbers[3]), err
}

func (b *workload) part(name string) string { return filepath.Join(b.dir, name) }

// furnish makes the sandbox's directory.
func (b *workload) furnish() (err error) {
	b.dir = filepath.Join(b.engine.boxes, b.id)
	for _, dir := range []string{b.dir, b.part(upperName), b.part(workName), b.part(pipesName)} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	b.pipes, err = makePipes(b.part(pipesName))
	return err
}

// Kill implements guestagent.Workload.
func (b *workload) Kill() error {
	b.killed.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), daemon.KillTime)
	defer cancel()
	return explain(b.engine.client.kill(ctx, b.id))
}

// Wait implements guestagent.Workload. A sandbox outlives its daemon, until it is to end:
// the shim and the pipes do not need it.
func (b *workload) Wait() sandbox.Exit {
	for began := time.Now(); ; time.Sleep(again) {
		answer, err := b.engine.client.task(context.Background(), "Wait", b.id)
		switch {
		case err == nil:
			return b.exit(uint32(answer.numbers[1]))
		case !away(err):
			return sandbox.Exit{Cause: sandbox.Crashed, Detail: "containerd has lost the container: " + err.Error()}
		case !b.killed.Load():
			began = time.Now()
		case time.Since(began) > daemon.Patience:
			return sandbox.Exit{Cause: sandbox.Crashed, Detail: "containerd went away: " + err.Error()}
		}
	}
}

// exit says why a container has ended.
func (b *workload) exit(code uint32) sandbox.Exit {
	ctx, cancel := context.WithTimeout(context.Background(), daemon.KillTime)
	defer cancel()
	if stats, err := b.Stats(ctx); err == nil && stats.OOMKills != nil && *stats.OOMKills > 0 {
		return sandbox.Exit{Cause: sandbox.OutOfMemory, Detail: "the memory limit was reached"}
	}
	return sandbox.Exit{Cause: sandbox.Crashed, Detail: fmt.Sprintf("the guest service ended (code %d): %s", code, b.pipes.said.String())}
}

// Release implements guestagent.Workload. The files go last: what runs uses them.
func (b *workload) Release(ctx context.Context) error {
	err := b.Leave()
	if b.pipes != nil {
		err = errors.Join(err, b.pipes.Close())
	}
	if failed := b.engine.client.remove(ctx, b.id); failed != nil {
		return errors.Join(err, failed)
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

// Pause implements daemon.Workload.
func (b *workload) Pause(ctx context.Context) error {
	_, err := b.engine.client.task(ctx, "Pause", b.id)
	return explain(err)
}

// Resume implements daemon.Workload.
func (b *workload) Resume(ctx context.Context) error {
	_, err := b.engine.client.task(ctx, "Resume", b.id)
	return explain(err)
}
