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
	prepare func(context.Context, engine.TemplateRequest) error
	create  func(context.Context, engine.CreateRequest) (id string, err error)
	exec    func(ctx context.Context, id string) error
	destroy func(ctx context.Context, id string) error
}

// command says something, so that its output has to come back too.
const (
	program = "echo"
	word    = "lab"
)

// measurer is who asks the engine of this program.
var measurer = engine.Caller{Tenant: "lab", Operator: true, Name: "lab"}

// inProcess asks an engine of this program.
func inProcess(e *engine.Engine) way {
	who := measurer
	return way{
		name: rowEngine,
		prepare: func(ctx context.Context, req engine.TemplateRequest) error {
			_, err := e.PrepareTemplate(ctx, who, req, nil)
			return err
		},
		create: func(ctx context.Context, req engine.CreateRequest) (string, error) {
			s, err := e.Create(ctx, who, req)
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
		prepare: func(ctx context.Context, req engine.TemplateRequest) error {
			_, err := c.PrepareTemplate(ctx, req, nil)
			return err
		},
		create: func(ctx context.Context, req engine.CreateRequest) (string, error) {
			s, err := c.Create(ctx, req)
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
	id, err := w.create(ctx, engine.CreateRequest{})
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
		id, err := w.create(ctx, engine.CreateRequest{})
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
		id, err := w.create(ctx, engine.CreateRequest{})
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

// pooled is the template whose children are kept ready, and ahead how many.
const (
	pooled = "lab"
	ahead  = 4
)

// claims measures the claim of a child that is ready, to what its first command says.
func (w way) claims(ctx context.Context) (lab.Contender, error) {
	err := w.prepare(ctx, engine.TemplateRequest{Ahead: ahead, Recipe: engine.Recipe{Name: pooled, Command: []string{"sleep", "1000000"}}})
	if err != nil {
		return lab.Contender{}, fmt.Errorf("%s: %w", w.name, err)
	}
	return lab.Contender{Name: w.name, Take: func(ctx context.Context) (lab.Sample, error) {
		watch := lab.StartWatch()
		id, err := w.create(ctx, engine.CreateRequest{Template: pooled})
		if err != nil {
			return lab.Sample{}, err
		}
		watch.Lap("claim")
		err = w.exec(ctx, id)
		watch.First("command")
		return watch.Sample, errors.Join(err, w.destroy(ctx, id))
	}}, nil
}
