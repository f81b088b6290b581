package qmp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"aether/internal/bounded"
	"aether/internal/host/launch"
)

// maxLine bounds one message of QEMU.
const maxLine = 1 << 20

// Client is one connection. It may be used by many at once.
type Client struct {
	conn  *net.UnixConn
	calls sync.Mutex // one command at a time
	last  uint64

	lines chan message
	ended chan struct{}
	err   error // why the reading ended; set before ended is closed
}

// message is everything that QEMU may say.
type message struct {
	Greeting json.RawMessage `json:"QMP"`
	Event    string          `json:"event"`
	ID       uint64          `json:"id"`
	Return   json.RawMessage `json:"return"`
	Error    *Error          `json:"error"`
}

// Error is QEMU's answer to a command that failed.
type Error struct {
	Class string `json:"class"`
	Desc  string `json:"desc"`
}

func (e *Error) Error() string { return "qemu: " + e.Desc }

// New takes a connection over and waits until QEMU answers on it.
func New(ctx context.Context, conn *net.UnixConn) (*Client, error) {
	c := &Client{conn: conn, lines: make(chan message), ended: make(chan struct{})}
	go c.read()
	if err := c.greet(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("qmp: %w", err), c.Close())
	}
	return c, nil
}

func (c *Client) greet(ctx context.Context) error {
	hello, err := c.next(ctx)
	if err != nil {
		return err
	}
	if hello.Greeting == nil {
		return errors.New("there is no QEMU at the other end")
	}
	return c.Call(ctx, "qmp_capabilities", nil, nil)
}

// read takes messages until the end. Events are dropped: who needs to know asks.
func (c *Client) read() {
	defer close(c.ended)
	scan := bufio.NewScanner(c.conn)
	scan.Buffer(make([]byte, 0, 4096), maxLine)
	for scan.Scan() {
		var m message
		if c.err = json.Unmarshal(scan.Bytes(), &m); c.err != nil {
			return
		}
		if m.Event == "" {
			c.lines <- m
		}
	}
	switch c.err = scan.Err(); {
	case c.err == nil:
		c.err = net.ErrClosed
	case errors.Is(c.err, bufio.ErrTooLong):
		c.err = &bounded.TooLong{What: "a message of QEMU", Max: maxLine}
	}
}

func (c *Client) next(ctx context.Context) (message, error) {
	select {
	case m := <-c.lines:
		return m, nil
	case <-c.ended:
		return message{}, c.err
	case <-ctx.Done():
		return message{}, ctx.Err()
	}
}

// Call executes a command and decodes what it returns, unless result is nil.
func (c *Client) Call(ctx context.Context, command string, arguments, result any) error {
	return c.CallFile(ctx, nil, command, arguments, result)
}

// CallFile is Call with a file that is handed to QEMU along with the command.
func (c *Client) CallFile(ctx context.Context, file *os.File, command string, arguments, result any) error {
	c.calls.Lock()
	defer c.calls.Unlock()
	c.last++
	answer, err := c.call(ctx, file, request{command, arguments, c.last})
	if err == nil && result != nil {
		err = json.Unmarshal(answer, result)
	}
	if err != nil {
		return fmt.Errorf("qmp: %s: %w", command, err)
	}
	return nil
}

type request struct {
	Execute   string `json:"execute"`
	Arguments any    `json:"arguments,omitempty"`
	ID        uint64 `json:"id"`
}

func (c *Client) call(ctx context.Context, file *os.File, r request) (json.RawMessage, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if err := c.send(ctx, append(text, '\n'), file); err != nil {
		return nil, err
	}
	for {
		m, err := c.next(ctx)
		switch {
		case err != nil:
			return nil, err
		case m.ID != r.ID: // of a call that was given up
		case m.Error != nil:
			return nil, m.Error
		default:
			return m.Return, nil
		}
	}
}

func (c *Client) send(ctx context.Context, text []byte, file *os.File) error {
	if err := c.conn.SetWriteDeadline(time.Time{}); err != nil {
		return err
	}
	// A QEMU that reads nothing ends no write, but the context does.
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = c.conn.SetWriteDeadline(time.Unix(1, 0))
		close(cut)
	})
	defer func() {
		if !stop() {
			<-cut // else it might end the write of the next call
		}
	}()
	var rights []byte
	if file != nil {
		rights = launch.Rights(file)
	}
	_, _, err := c.conn.WriteMsgUnix(text, rights, nil)
	return err
}

// Close ends the connection. Calls that wait fail.
func (c *Client) Close() error {
	err := c.conn.Close()
	for {
		select {
		case <-c.lines: // an answer that nobody waits for
		case <-c.ended:
			return err
		}
	}
}
