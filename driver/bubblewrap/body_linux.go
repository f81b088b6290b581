package bubblewrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"aether/guest/channel"
	"aether/guest/inside"
	"aether/host/cgroup"
	"aether/host/inroot"
	"aether/host/launch"
	"aether/host/seccomp"
	"aether/host/spawn"
	"aether/sandbox"
)

// bootTime bounds how long a sandbox may take whose caller set no bound.
const bootTime = 30 * time.Second

// body is a sandbox: bwrap, with which everything inside ends.
type body struct {
	engine  *engine
	limits  sandbox.Limits
	group   *cgroup.Group // nil where there are none
	monitor *spawn.Process
	root    *inroot.Root // as the sandbox sees it
	pipes   *inside.Pipes
}

// boot starts bwrap and meets the guest service in it. A failure leaves nothing.
func (b *body) boot(ctx context.Context, program launch.Program, settings inside.Settings) (_ *channel.Dialer, err error) {
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	if b.pipes, err = inside.NewPipes(); err != nil {
		return nil, err
	}
	if err := b.launch(program); err != nil {
		return nil, errors.Join(err, b.pipes.Close())
	}
	dialer, err := b.meet(ctx, settings)
	if err != nil {
		return nil, errors.Join(err, b.discard())
	}
	return dialer, nil
}

func (b *body) launch(program launch.Program) error {
	filter, err := filterFile()
	if err != nil {
		return err
	}
	defer filter.Close()
	program.Files = append(program.Files, append(b.pipes.Child(), filter)...)
	b.monitor, err = b.engine.host.Start(program)
	return errors.Join(err, b.pipes.Started())
}

// filterFile is the system call filter in a pipe, which has room for all of it.
func filterFile() (*os.File, error) {
	text, err := seccomp.Bytes()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	_, err = w.Write(text)
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (b *body) meet(ctx context.Context, settings inside.Settings) (*channel.Dialer, error) {
	// bwrap has been executed, so this program's memory is out of the group.
	if err := b.engine.groups.Limit(b.group, b.limits); err != nil {
		return nil, err
	}
	dialer, err := b.pipes.Join(ctx, settings)
	if err != nil {
		return nil, err
	}
	root, err := launch.ChildRoot(b.monitor)
	if err != nil {
		return nil, errors.Join(err, dialer.Close())
	}
	b.root = inroot.New(root)
	return dialer, nil
}

// discard ends what boot began.
func (b *body) discard() error {
	err := b.Kill()
	b.Wait()
	return errors.Join(err, b.pipes.Close())
}

// Kill implements inside.Body. The group goes first, because it also lets go on
// what is paused.
func (b *body) Kill() (err error) {
	if b.group != nil {
		err = b.group.Kill(context.Background())
	}
	if killed := b.monitor.Signal(syscall.SIGKILL); !errors.Is(killed, syscall.ESRCH) {
		err = errors.Join(err, killed)
	}
	return err
}

// Wait implements inside.Body.
func (b *body) Wait() sandbox.Exit {
	status, err := b.monitor.Wait()
	if inside.OutOfMemory(b.group) {
		return sandbox.Exit{Cause: sandbox.OutOfMemory, Detail: "the memory limit was reached"}
	}
	detail := fmt.Sprintf("the guest service ended (code %d): %s", status.Code, b.pipes.Said())
	if err != nil {
		detail = err.Error()
	}
	return sandbox.Exit{Cause: sandbox.Crashed, Detail: detail}
}

// Release implements inside.Body.
func (b *body) Release(ctx context.Context) error {
	err := errors.Join(b.root.Close(), b.pipes.Close())
	if b.group != nil {
		err = errors.Join(err, b.group.Remove(ctx))
	}
	return err
}

// Stats implements inside.Body.
func (b *body) Stats(context.Context) (sandbox.Stats, error) {
	stats, err := b.engine.groups.Stats(b.group, b.limits)
	if err != nil {
		return stats, err
	}
	total, free, err := b.root.Usage()
	if err != nil {
		return stats, err
	}
	used, left := int64(total-free), int64(free)
	stats.DiskBytes, stats.DiskFreeBytes = &used, &left
	return stats, nil
}

// instance is a sandbox that can be paused.
type instance struct {
	*inside.Instance
	body *body
}

var _ sandbox.Pauser = (*instance)(nil)

// Pause implements sandbox.Pauser.
func (i *instance) Pause(ctx context.Context) error {
	return i.setPaused(true, func() error { return i.body.group.Freeze(ctx) })
}

// Resume implements sandbox.Pauser.
func (i *instance) Resume(context.Context) error {
	return i.setPaused(false, func() error { return i.body.group.Thaw() })
}

func (i *instance) setPaused(paused bool, change func() error) error {
	return i.SetPaused(paused, func() error {
		if i.body.group == nil {
			return &sandbox.Error{Class: sandbox.Unavailable, Op: "bubblewrap: pause", Err: i.body.engine.groups.Unlimited()}
		}
		return change()
	})
}
