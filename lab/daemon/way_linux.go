package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"aether/engine"
	"aether/guest"
	"aether/lab"
	"aether/rest"
)

// way is one way of asking an engine for the same work.
type way struct {
	name    string
	create  func(context.Context) (id string, err error)
	exec    func(ctx context.Context, id string) error
	destroy func(ctx context.Context, id string) error
}

// command says something, so that its output has to come back too.
const (
	program = "echo"
	word    = "lab"
)

// inProcess asks an engine of this program.
func inProcess(e *engine.Engine) way {
	who := engine.Caller{Tenant: "lab", Operator: true, Name: "lab"}
	return way{
		name: rowEngine,
		create: func(ctx context.Context) (string, error) {
			s, err := e.Create(ctx, who, engine.CreateRequest{})
			return s.ID, err
		},
		exec: func(ctx context.Context, id string) error {
			client, release, err := e.Guest(ctx, who, id)
			if err != nil {
				return err
			}
			defer release()
			return say(ctx, client)
		},
		destroy: func(ctx context.Context, id string) error { return e.Destroy(ctx, who, id) },
	}
}

// overDoor asks a daemon.
func overDoor(name string, c *rest.Client) way {
	return way{
		name: name,
		create: func(ctx context.Context) (string, error) {
			s, err := c.Create(ctx, engine.CreateRequest{})
			return s.ID, err
		},
		exec: func(ctx context.Context, id string) error {
			result, err := c.Exec(ctx, id, rest.ExecRequest{Command: []string{program, word}})
			if err != nil {
				return err
			}
			return check(result.ExitCode, result.Stdout.Text)
		},
		destroy: c.Destroy,
	}
}

// streamed asks a daemon, and has the command's output as it comes.
func streamed(c *rest.Client) way {
	w := overDoor(rowStream, c)
	w.exec = func(ctx context.Context, id string) error {
		client, release, err := c.Guest(ctx, id)
		if err != nil {
			return err
		}
		defer release()
		return say(ctx, client)
	}
	return w
}

// say runs the command through a guest service.
func say(ctx context.Context, client *guest.Client) error {
	var out strings.Builder
	running, err := client.Start(ctx, guest.Cmd{Path: program, Args: []string{word}, Stdout: &out})
	if err != nil {
		return err
	}
	status, err := running.Wait()
	if err != nil {
		return err
	}
	return check(status.Code, out.String())
}

func check(status int, said string) error {
	if status != 0 || strings.TrimSpace(said) != word {
		return fmt.Errorf("the command ended with %d and said %.80q", status, said)
	}
	return nil
}

// execs measures commands in one sandbox, which undo ends.
func (w way) execs(ctx context.Context) (c lab.Contender, undo func() error, err error) {
	id, err := w.create(ctx)
	if err != nil {
		return c, nil, fmt.Errorf("%s: %w", w.name, err)
	}
	take := func(ctx context.Context) (lab.Sample, error) {
		watch := lab.StartWatch()
		err := w.exec(ctx, id)
		watch.First("command")
		return watch.Sample, err
	}
	return lab.Contender{Name: w.name, Take: take}, func() error { return w.destroy(context.Background(), id) }, nil
}

// creates measures the making of a sandbox.
func (w way) creates() lab.Contender {
	return lab.Contender{Name: w.name, Take: func(ctx context.Context) (lab.Sample, error) {
		watch := lab.StartWatch()
		id, err := w.create(ctx)
		watch.First("create")
		if err == nil {
			err = w.destroy(ctx, id)
		}
		return watch.Sample, err
	}}
}

// lives measures whole lives.
func (w way) lives() lab.Contender {
	return lab.Contender{Name: w.name, Take: func(ctx context.Context) (lab.Sample, error) {
		watch := lab.StartWatch()
		id, err := w.create(ctx)
		if err != nil {
			return lab.Sample{}, err
		}
		watch.Lap("create")
		err = w.exec(ctx, id)
		watch.Lap("command")
		err = errors.Join(err, w.destroy(ctx, id))
		watch.Lap("end")
		return watch.Done(), err
	}}
}
