package containerd

import (
	"context"
	"encoding/json"
	"syscall"
	"time"

	"github.com/containerd/containerd/api/services/containers/v1"
	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types"
	"github.com/containerd/containerd/api/types/task"
	"github.com/opencontainers/runtime-spec/specs-go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
)

// specType is how containerd names the specification of a container.
const specType = "types.containerd.io/opencontainers/runtime-spec/1/Spec"

// register tells containerd of a container. Nothing runs yet.
func (d *client) register(ctx context.Context, id, shim string, labels map[string]string, config *specs.Spec) error {
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	_, err = d.containers.Create(ctx, &containers.CreateContainerRequest{Container: &containers.Container{
		ID: id, Labels: labels, Runtime: &containers.Container_Runtime{Name: shim}, Spec: &anypb.Any{TypeUrl: specType, Value: text},
	}})
	return err
}

// run starts a container's first process, with its streams joined to the pipes.
func (d *client) run(ctx context.Context, id string, p *pipes, overlay []string) error {
	_, err := d.tasks.Create(ctx, &tasks.CreateTaskRequest{
		ContainerID: id, Stdin: p.path(inName), Stdout: p.path(outName), Stderr: p.path(errName),
		Rootfs: []*types.Mount{{Type: "overlay", Source: "overlay", Options: overlay}},
	})
	if err != nil {
		return err
	}
	_, err = d.tasks.Start(ctx, &tasks.StartRequest{ContainerID: id})
	return err
}

// kill ends what runs in a container. Frozen processes die when they go on. Some
// runtimes let them, and then refuse to do it again: whether they died is for
// those to say who wait for it.
func (d *client) kill(ctx context.Context, id string) error {
	_, err := d.tasks.Kill(ctx, &tasks.KillRequest{ContainerID: id, Signal: uint32(syscall.SIGKILL)})
	if err != nil {
		return ended(err)
	}
	state, err := d.tasks.Get(ctx, &tasks.GetRequest{ContainerID: id})
	if err != nil {
		return ended(err)
	}
	if status := state.GetProcess().GetStatus(); status == task.Status_PAUSED || status == task.Status_PAUSING {
		_, _ = d.tasks.Resume(ctx, &tasks.ResumeTaskRequest{ContainerID: id})
	}
	return nil
}

// ended forgives what is asked of a process that has ended.
func ended(err error) error {
	if gone(err) || status.Code(err) == codes.FailedPrecondition {
		return nil
	}
	return err
}

// again is how long to wait before something is tried again.
const again = 50 * time.Millisecond

// remove ends a container and everything that containerd keeps of it.
func (d *client) remove(ctx context.Context, id string) error {
	for {
		err := d.tryRemove(ctx, id)
		if err == nil || ctx.Err() != nil {
			return explain(err)
		}
		// A task cannot be deleted while it is being made, or not yet has ended.
		if status.Code(err) != codes.FailedPrecondition {
			return explain(err)
		}
		time.Sleep(again)
	}
}

func (d *client) tryRemove(ctx context.Context, id string) error {
	if err := d.kill(ctx, id); err != nil {
		return err
	}
	if _, err := d.tasks.Wait(ctx, &tasks.WaitRequest{ContainerID: id}); err != nil && !gone(err) {
		return err
	}
	if _, err := d.tasks.Delete(ctx, &tasks.DeleteTaskRequest{ContainerID: id}); err != nil && !gone(err) {
		return err
	}
	_, err := d.containers.Delete(ctx, &containers.DeleteContainerRequest{ID: id})
	if gone(err) {
		return nil
	}
	return err
}
