// Package conversation speaks line by line to a program in a sandbox, by its guest
// service, for those who measure how soon it answers. It knows no program.
package conversation

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"aether/guest"
	"aether/sandbox"
)

// Conversation is a program in a sandbox that is spoken to line by line.
type Conversation struct {
	client  *guest.Client
	running *guest.Running
	out     *io.PipeReader
	lines   *bufio.Reader
	unlink  context.CancelFunc
	ended   chan struct{}
}

// Start starts a program in a sandbox.
func Start(ctx context.Context, in sandbox.Instance, command ...string) (*Conversation, error) {
	return begin(ctx, in, func(ctx context.Context, client *guest.Client, cmd guest.Cmd) (*guest.Running, error) {
		cmd.Path, cmd.Args = command[0], command[1:]
		return client.Start(ctx, cmd)
	})
}

// Connect speaks to a program that runs already, by its number inside.
func Connect(ctx context.Context, in sandbox.Instance, pid int) (*Conversation, error) {
	return begin(ctx, in, func(ctx context.Context, client *guest.Client, cmd guest.Cmd) (*guest.Running, error) {
		return client.Connect(ctx, pid, cmd)
	})
}

func begin(ctx context.Context, in sandbox.Instance, start func(context.Context, *guest.Client, guest.Cmd) (*guest.Running, error)) (_ *Conversation, err error) {
	c := &Conversation{client: guest.ClientFor(in, guest.ClientOptions{}), ended: make(chan struct{})}
	life, unlink := context.WithCancel(context.WithoutCancel(ctx))
	c.unlink = unlink
	// A service that does not answer is given up with the context.
	defer context.AfterFunc(ctx, unlink)()
	outR, outW := io.Pipe()
	c.out, c.lines = outR, bufio.NewReader(outR)
	if c.running, err = start(life, c.client, guest.Cmd{StdinPipe: true, Stdout: outW}); err != nil {
		unlink()
		return nil, err
	}
	go func() {
		defer close(c.ended)
		_, err := c.running.Wait()
		outW.CloseWithError(errors.Join(io.EOF, err))
	}()
	return c, nil
}

// Pid is the number of the program inside.
func (c *Conversation) Pid() int { return c.running.Pid() }

// Stdin is what the program reads.
func (c *Conversation) Stdin() io.Writer { return c.running.Stdin() }

// Close stops following; the program goes on.
func (c *Conversation) Close() error {
	c.out.Close()
	c.unlink()
	<-c.ended
	c.client.Close()
	return nil
}

// Await bounds what waits for the program.
func (c *Conversation) Await(ctx context.Context, read func(*bufio.Reader) error) error {
	return Within(ctx, func() { c.out.Close() }, func() error { return read(c.lines) })
}

// Ask writes a line and gives the answer to it.
func (c *Conversation) Ask(ctx context.Context, line string) (answer string, err error) {
	err = c.Await(ctx, func(from *bufio.Reader) error {
		if _, err := io.WriteString(c.Stdin(), line+"\n"); err != nil {
			return err
		}
		answer, err = readLine(from)
		return err
	})
	return answer, err
}

// Line gives the next line that the program says.
func (c *Conversation) Line(ctx context.Context) (line string, err error) {
	err = c.Await(ctx, func(from *bufio.Reader) error {
		line, err = readLine(from)
		return err
	})
	return line, err
}

// maxLine bounds an answer: what is inside is not trusted.
const maxLine = 64 << 10

func readLine(from *bufio.Reader) (string, error) {
	var line strings.Builder
	for line.Len() < maxLine {
		part, err := from.ReadSlice('\n')
		line.Write(part)
		if err == nil {
			return strings.TrimSuffix(line.String(), "\n"), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return "", err
		}
	}
	return "", fmt.Errorf("an answer is longer than %d bytes", maxLine)
}

// Within bounds the wait for an answer: giveUp has it end. No goroutine and no timer
// is made for it, which would want the processors that are measured.
func Within(ctx context.Context, giveUp func(), wait func() error) error {
	defer context.AfterFunc(ctx, giveUp)()
	err := wait()
	if ctx.Err() != nil {
		return fmt.Errorf("no reply: %w", ctx.Err())
	}
	return err
}
