package scale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"aether/guest"
	"aether/lab"
	"aether/sandbox"
)

// patience bounds one turn.
const patience = 30 * time.Second

// word is what a command says.
const word = "alive"

// samples are those of one level.
type samples struct{ life, exec, fork turns }

// turns are the samples of one thing, or why there are none.
type turns struct {
	list    []lab.Sample
	skipped string
}

func (t turns) row(name string) lab.Row {
	if t.skipped != "" {
		return lab.Row{Name: name, Skipped: t.skipped}
	}
	return lab.NewRow(name, t.list)
}

// sample measures everything at a level, in interleaved rounds.
func (c *crowd) sample(ctx context.Context, level int) error {
	fork := lab.Contender{Name: "fork", Take: c.fork, Skipped: c.noFork}
	found, err := lab.Rounds{Count: c.opts.Rounds, Warmup: 2, Patience: patience}.Measure(ctx,
		[]lab.Contender{{Name: "life", Take: c.life}, {Name: "exec", Take: c.exec}, fork})
	if err != nil {
		return fmt.Errorf("with %d alive: %w", level, err)
	}
	s := c.samples[level]
	if s == nil {
		s = &samples{fork: turns{skipped: c.noFork}}
		c.samples[level] = s
	}
	s.life.list = append(s.life.list, found[0]...)
	s.exec.list = append(s.exec.list, found[1]...)
	s.fork.list = append(s.fork.list, found[2]...)
	return nil
}

// life makes a sandbox, runs its first command and ends it.
func (c *crowd) life(ctx context.Context) (lab.Sample, error) {
	w := lab.StartWatch()
	one, err := c.driver.Create(ctx, c.opts.spec())
	w.Lap(lapCreate)
	if err != nil {
		return lab.Sample{}, err
	}
	err = say(ctx, one)
	w.Lap(lapCommand)
	err = errors.Join(err, one.Destroy(ctx))
	w.Lap(lapEnd)
	return w.Done(), err
}

// exec runs a command in one of the living.
func (c *crowd) exec(ctx context.Context) (lab.Sample, error) {
	w := lab.StartWatch()
	err := say(ctx, c.alive[len(c.alive)/2])
	w.Lap(lapCommand)
	return w.Done(), err
}

// fork copies the source. The end of the copy does not count.
func (c *crowd) fork(ctx context.Context) (lab.Sample, error) {
	w := lab.StartWatch()
	children, err := c.source.(sandbox.Forker).Fork(ctx, make([]sandbox.Spec, 1))
	w.First("fork")
	if err != nil {
		return lab.Sample{}, err
	}
	err = children[0].Destroy(ctx)
	w.Lap(lapEnd)
	return w.Sample, err
}

// say runs a command in a sandbox to its end.
func say(ctx context.Context, in sandbox.Instance) error {
	client := guest.ClientFor(in, guest.ClientOptions{})
	defer client.Close()
	var out bytes.Buffer
	running, err := client.Start(ctx, guest.Cmd{Path: "/bin/echo", Args: []string{word}, Stdout: &out})
	if err != nil {
		return err
	}
	exit, err := running.Wait()
	if err == nil && (exit.Code != 0 || out.String() != word+"\n") {
		err = fmt.Errorf("the command ended with %+v and said %q", exit, out.String())
	}
	return err
}

// newSource is a sandbox with a program that waits, to be forked, or none where the
// driver cannot fork.
func (c *crowd) newSource(ctx context.Context) (sandbox.Instance, error) {
	one, err := c.driver.Create(ctx, c.opts.spec())
	if err != nil {
		return nil, err
	}
	if _, ok := one.(sandbox.Forker); !ok || c.driver.Info().Verbs.Fork == "" {
		c.noFork = c.driver.Info().Name + " cannot fork a running sandbox"
		return one, nil
	}
	client := guest.ClientFor(one, guest.ClientOptions{})
	defer client.Close()
	if _, err := client.Start(context.WithoutCancel(ctx), guest.Cmd{Path: "/bin/sleep", Args: []string{"infinity"}}); err != nil {
		return nil, errors.Join(err, one.Destroy(ctx))
	}
	return one, nil
}
