package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/opencontainers/runtime-spec/specs-go"

	"aether/guest/channel"
	"aether/guest/inside"
	"aether/sandbox"
)

// body is a sandbox: a container, with whose first process everything in it ends.
type body struct {
	engine *engine
	id     string // the container's
	dir    string // what is written inside, and the pipes
	pipes  *pipes
	killed atomic.Bool
}

// Parts of a sandbox's directory.
const (
	upperName = "upper"
	workName  = "work"
	pipesName = "pipes"
)

// boot makes and starts a container and meets the guest service in it. A failure
// leaves nothing.
func (b *body) boot(ctx context.Context, id string, config *specs.Spec, layers []string, s inside.Settings) (*channel.Dialer, error) {
	dialer, err := b.begin(ctx, id, config, layers, s)
	if err == nil {
		return dialer, nil
	}
	clean, cancel := context.WithTimeout(context.Background(), inside.CleanupTime)
	defer cancel()
	return nil, errors.Join(err, b.Release(clean))
}

func (b *body) begin(ctx context.Context, id string, config *specs.Spec, layers []string, s inside.Settings) (*channel.Dialer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := b.furnish(); err != nil {
		return nil, err
	}
	// The caller's impatience does not cut a request off: nobody would know what
	// the daemon made of it.
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), bootTime)
	defer cancel()
	d, labels := b.engine.daemon, map[string]string{ownerLabel: b.engine.owner.label, idLabel: id}
	if err := d.register(whole, b.id, b.engine.opts.shim(), labels, config); err != nil {
		return nil, err
	}
	if err := d.run(whole, b.id, b.pipes, overlayOptions(layers, b.part(upperName), b.part(workName))); err != nil {
		return nil, err
	}
	dialer, err := inside.Meet(ctx, b.pipes, s)
	if said := b.pipes.said.String(); err != nil && said != "" {
		err = &sandbox.Error{Class: sandbox.ClassOf(err), Op: "guest service", Reason: said, Err: err}
	}
	return dialer, err
}

func (b *body) part(name string) string { return filepath.Join(b.dir, name) }

// furnish makes the sandbox's directory.
func (b *body) furnish() (err error) {
	b.dir = filepath.Join(b.engine.owner.boxes, b.id)
	for _, dir := range []string{b.dir, b.part(upperName), b.part(workName), b.part(pipesName)} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	b.pipes, err = makePipes(b.part(pipesName))
	return err
}

// killTime bounds one attempt to kill a container.
const killTime = inside.CleanupTime / 2

// Kill implements inside.Body.
func (b *body) Kill() error {
	b.killed.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), killTime)
	defer cancel()
	return explain(b.engine.daemon.kill(ctx, b.id))
}

// patience is how long a daemon may be away from a sandbox that is to end.
const patience = 5 * time.Second

// Wait implements inside.Body. A sandbox outlives its daemon: the shim and the
// pipes do not need it.
func (b *body) Wait() sandbox.Exit {
	for began := time.Now(); ; time.Sleep(again) {
		answer, err := b.engine.daemon.tasks.Wait(context.Background(), &tasks.WaitRequest{ContainerID: b.id})
		switch {
		case err == nil:
			return b.exit(answer.GetExitStatus())
		case !away(err):
			return sandbox.Exit{Cause: sandbox.Crashed, Detail: "containerd has lost the container: " + err.Error()}
		case !b.killed.Load():
			began = time.Now()
		case time.Since(began) > patience:
			return sandbox.Exit{Cause: sandbox.Crashed, Detail: "containerd went away: " + err.Error()}
		}
	}
}

// exit says why a container has ended.
func (b *body) exit(code uint32) sandbox.Exit {
	ctx, cancel := context.WithTimeout(context.Background(), killTime)
	defer cancel()
	if stats, err := b.Stats(ctx); err == nil && stats.OOMKills != nil && *stats.OOMKills > 0 {
		return sandbox.Exit{Cause: sandbox.OutOfMemory, Detail: "the memory limit was reached"}
	}
	return sandbox.Exit{Cause: sandbox.Crashed, Detail: fmt.Sprintf("the guest service ended (code %d): %s", code, b.pipes.said.String())}
}

// Release implements inside.Body. The files go last: what runs uses them.
func (b *body) Release(ctx context.Context) error {
	var err error
	if b.pipes != nil {
		err = b.pipes.Close()
	}
	if failed := b.engine.daemon.remove(ctx, b.id); failed != nil {
		return errors.Join(err, failed)
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

// instance is a sandbox that can be paused.
type instance struct {
	*inside.Instance
	body *body
}

var _ sandbox.Pauser = (*instance)(nil)

// Pause implements sandbox.Pauser.
func (i *instance) Pause(ctx context.Context) error {
	return i.SetPaused(true, func() error {
		_, err := i.body.engine.daemon.tasks.Pause(ctx, &tasks.PauseTaskRequest{ContainerID: i.body.id})
		return explain(err)
	})
}

// Resume implements sandbox.Pauser.
func (i *instance) Resume(ctx context.Context) error {
	return i.SetPaused(false, func() error {
		_, err := i.body.engine.daemon.tasks.Resume(ctx, &tasks.ResumeTaskRequest{ContainerID: i.body.id})
		return explain(err)
	})
}
