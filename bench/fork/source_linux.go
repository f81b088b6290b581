package fork

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"aether/engine"
	"aether/guest"
	"aether/sandbox"
)

// patience bounds the wait for one reply.
const patience = 30 * time.Second

// source is a template that is forked for every sample.
type source struct{ template *engine.Template }

func (b *bench) source(ctx context.Context, name string, command ...string) (source, error) {
	t, err := b.engine.Prepare(ctx, b.driver, engine.Recipe{Name: name, Command: command, Ready: engine.Ready{Line: primed}}, nil)
	return source{t}, err
}

// first forks the source and has the child answer.
func (s source) first(ctx context.Context) (_ sample, err error) {
	w := startWatch()
	children, err := s.template.Fork(ctx, sandbox.Spec{})
	w.lap("fork")
	if err != nil {
		return sample{}, err
	}
	child := children[0]
	defer func() { err = errors.Join(err, child.Destroy(ctx)) }()
	streams, err := child.Streams(ctx)
	w.lap("connect")
	if err != nil {
		return sample{}, err
	}
	err = ask(ctx, streams.Stdin, bufio.NewReader(streams.Stdout))
	w.lap("reply")
	return w.done(s.template.LastPause()), err
}

// ask writes a line and waits for the answer.
func ask(ctx context.Context, to io.Writer, from *bufio.Reader) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		_, err := io.WriteString(to, "x\n")
		if err == nil {
			err = readAnswer(from)
		}
		answered <- err
	}()
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return fmt.Errorf("no reply: %w", ctx.Err())
	}
}

func readAnswer(from *bufio.Reader) error {
	line, err := from.ReadString('\n')
	if err == nil && line == primed+"\n" {
		line, err = from.ReadString('\n')
	}
	if err == nil && !strings.HasSuffix(line, " x\n") {
		err = fmt.Errorf("the reply is %q", line)
	}
	return err
}

// fresh makes a sandbox, starts the same program in it and has that answer.
func (b *bench) fresh(command ...string) func(context.Context) (sample, error) {
	return func(ctx context.Context) (_ sample, err error) {
		w := startWatch()
		instance, err := b.driver.Create(ctx, sandbox.Spec{})
		w.lap("create")
		if err != nil {
			return sample{}, err
		}
		defer func() { err = errors.Join(err, instance.Destroy(ctx)) }()
		err = startAndAsk(ctx, instance, command)
		w.lap("start and reply")
		return w.done(0), err
	}
}

func startAndAsk(ctx context.Context, instance sandbox.Instance, command []string) error {
	client := guest.NewClient(instance.Dial, guest.ClientOptions{})
	defer client.Close()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	defer outR.Close()
	defer inW.Close()
	running, err := client.Start(ctx, guest.Cmd{Path: command[0], Args: command[1:], Stdin: inR, Stdout: outW})
	if err != nil {
		return err
	}
	go func() {
		_, err := running.Wait()
		outW.CloseWithError(err)
		inR.Close()
	}()
	return ask(ctx, inW, bufio.NewReader(outR))
}

// watch cuts a span of time into laps.
type watch struct {
	start, last time.Time
	sample      sample
}

func startWatch() *watch {
	now := time.Now()
	return &watch{start: now, last: now}
}

func (w *watch) lap(name string) {
	now := time.Now()
	w.sample.parts = append(w.sample.parts, part{name, now.Sub(w.last)})
	w.last = now
}

func (w *watch) done(pause time.Duration) sample {
	w.sample.total, w.sample.pause = w.last.Sub(w.start), pause
	return w.sample
}
