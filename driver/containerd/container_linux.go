package containerd

import (
	"context"
	"encoding/json"
	"syscall"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// specType is how containerd names the specification of a container.
const specType = "types.containerd.io/opencontainers/runtime-spec/1/Spec"

// register tells containerd of a container. Nothing runs yet.
func (d *client) register(ctx context.Context, id, shim string, labels map[string]string, config *specs.Spec) error {
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	container := message{}.text(1, id).labels(2, labels).
		inner(4, message{}.text(1, shim)).
		inner(5, message{}.text(1, specType).inner(2, text))
	_, err = d.call(ctx, containers, "Create", message{}.inner(1, container))
	return err
}

// container is what containerd knows of one.
type container struct {
	id     string
	labels map[string]string
	made   time.Time
}

// list gives all that containerd knows.
func (d *client) list(ctx context.Context) (list []container, err error) {
	answer, err := d.call(ctx, containers, "List", nil)
	if err != nil {
		return nil, err
	}
	for _, m := range answer.parts[1] {
		f, err := m.read()
		if err != nil {
			return nil, err
		}
		c := container{id: f.text(1)}
		if c.labels, err = f.labels(2); err != nil {
			return nil, err
		}
		if c.made, err = readTime(message(f.text(8))); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

func readTime(m message) (time.Time, error) {
	f, err := m.read()
	return time.Unix(int64(f.numbers[1]), int64(f.numbers[2])), err
}

// run starts a container's first process, with its streams joined to the pipes.
func (d *client) run(ctx context.Context, id string, p *pipes, overlay []string) error {
	root := message{}.text(1, "overlay").text(2, "overlay").texts(4, overlay)
	_, err := d.call(ctx, tasks, "Create", message{}.text(1, id).inner(3, root).
		text(4, p.path(inName)).text(5, p.path(outName)).text(6, p.path(errName)))
	if err != nil {
		return err
	}
	_, err = d.task(ctx, "Start", id)
	return err
}

// task has something done with a container's first process, by whose container
// all requests begin.
func (d *client) task(ctx context.Context, method, id string) (fields, error) {
	return d.call(ctx, tasks, method, message{}.text(1, id))
}

// States of a process.
const (
	paused  = 4
	pausing = 5
)

// kill ends what runs in a container. Frozen processes die when they go on. Some
// runtimes let them, and then refuse to do it again: whether they died is for
// those to say who wait for it.
func (d *client) kill(ctx context.Context, id string) error {
	_, err := d.call(ctx, tasks, "Kill", message{}.text(1, id).number(3, uint64(syscall.SIGKILL)))
	if err != nil {
		return ended(err)
	}
	answer, err := d.task(ctx, "Get", id)
	if err != nil {
		return ended(err)
	}
	process, err := answer.inner(1)
	if state := process.numbers[4]; state == paused || state == pausing {
		_, _ = d.task(ctx, "Resume", id)
	}
	return err
}

// ended forgives what is asked of a process that has ended.
func ended(err error) error {
	if gone(err) || untimely(err) {
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
		if !untimely(err) {
			return explain(err)
		}
		time.Sleep(again)
	}
}

func (d *client) tryRemove(ctx context.Context, id string) error {
	if err := d.kill(ctx, id); err != nil {
		return err
	}
	for _, method := range []string{"Wait", "Delete"} {
		if _, err := d.task(ctx, method, id); err != nil && !gone(err) {
			return err
		}
	}
	_, err := d.call(ctx, containers, "Delete", message{}.text(1, id))
	if gone(err) {
		return nil
	}
	return err
}
