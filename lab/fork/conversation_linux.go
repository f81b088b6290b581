package fork

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"aether/guest"
	"aether/sandbox"
)

// patience bounds one turn, with its wait for a reply.
const patience = 30 * time.Second

// conversation is a program in a sandbox that is spoken to line by line.
type conversation struct {
	client  *guest.Client
	running *guest.Running
	out     *io.PipeReader
	lines   *bufio.Reader
	unlink  context.CancelFunc
	ended   chan struct{}
}

// begin starts a program or connects to one.
type begin func(context.Context, *guest.Client, guest.Cmd) (*guest.Running, error)

func startOf(command []string) begin {
	return func(ctx context.Context, client *guest.Client, cmd guest.Cmd) (*guest.Running, error) {
		cmd.Path, cmd.Args = command[0], command[1:]
		return client.Start(ctx, cmd)
	}
}

func connectTo(pid int) begin {
	return func(ctx context.Context, client *guest.Client, cmd guest.Cmd) (*guest.Running, error) {
		return client.Connect(ctx, pid, cmd)
	}
}

func converse(ctx context.Context, instance sandbox.Instance, start begin) (_ *conversation, err error) {
	c := &conversation{client: guest.ClientFor(instance, guest.ClientOptions{}), ended: make(chan struct{})}
	life, unlink := context.WithCancel(context.WithoutCancel(ctx))
	c.unlink = unlink
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

// close stops following; the program goes on.
func (c *conversation) close() error {
	c.out.Close()
	c.unlink()
	<-c.ended
	c.client.Close()
	return nil
}

func (c *conversation) ask(ctx context.Context) error {
	return c.await(ctx, func(*bufio.Reader) error { return exchange(c.running.Stdin(), c.lines) })
}

// await bounds what waits for the program.
func (c *conversation) await(ctx context.Context, read func(*bufio.Reader) error) error {
	return within(ctx, func() { c.out.Close() }, func() error { return read(c.lines) })
}

// within bounds the wait for an answer: giveUp has it end. No goroutine and no timer
// is made for it, which would want the processors that are measured.
func within(ctx context.Context, giveUp func(), wait func() error) error {
	defer context.AfterFunc(ctx, giveUp)()
	err := wait()
	if ctx.Err() != nil {
		return fmt.Errorf("no reply: %w", ctx.Err())
	}
	return err
}

// exchange writes a line and reads the answer, which may come after the line that
// says that the program is primed.
func exchange(to io.Writer, from *bufio.Reader) error {
	if _, err := io.WriteString(to, "x\n"); err != nil {
		return err
	}
	line, err := from.ReadString('\n')
	if err == nil && line == primed+"\n" {
		line, err = from.ReadString('\n')
	}
	if err == nil && !strings.HasSuffix(line, " x\n") {
		err = fmt.Errorf("the reply is %q", line)
	}
	return err
}

func readPrimed(from *bufio.Reader) error {
	line, err := from.ReadString('\n')
	if err == nil && line != primed+"\n" {
		err = fmt.Errorf("the program says %q", line)
	}
	return err
}
