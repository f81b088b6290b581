package vmm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"aether/sandbox"
)

// guestPort is where the guest service listens.
const guestPort = 1024

// maxAnswer bounds the line by which a monitor says that it has connected.
const maxAnswer = 32

// guestDialer connects to the guest service: a monitor gives the guest's vsock as
// a socket on the host, and is told by a line which port is meant.
type guestDialer struct {
	connect func(context.Context) (net.Conn, error) // to the monitor's socket

	mu     sync.Mutex
	closed bool
	open   map[*guestConn]struct{}
	// spare is the connection by which the service was found to answer, for the first who
	// needs one soon after. It is one of open.
	spare      *guestConn
	spareSince time.Time
}

var _ line = (*guestDialer)(nil)

func newGuestDialer(connect func(context.Context) (net.Conn, error)) *guestDialer {
	return &guestDialer{connect: connect, open: map[*guestConn]struct{}{}}
}

// guestConn is a connection that ends with its machine.
type guestConn struct {
	net.Conn
	of *guestDialer
}

// Close implements net.Conn.
func (c *guestConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	if c.of.spare == c {
		c.of.spare = nil
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// Dial implements guestagent.Dialer. Errors: NotFound once closed.
func (d *guestDialer) Dial(ctx context.Context) (net.Conn, error) {
	if conn := d.takeSpare(); conn != nil {
		return conn, nil
	}
	conn, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// spareTime is how long a connection waits for who needs one: a service gives up who says
// nothing for long.
const spareTime = time.Second

// takeSpare gives the spare connection, if there is one that waits for not too long.
func (d *guestDialer) takeSpare() *guestConn {
	d.mu.Lock()
	conn := d.spare
	d.spare = nil
	fresh := time.Since(d.spareSince) < spareTime
	d.mu.Unlock()
	if conn != nil && !fresh {
		conn.Close()
		return nil
	}
	return conn
}

func (d *guestDialer) dial(ctx context.Context) (*guestConn, error) {
	raw, err := d.connect(ctx)
	if err != nil {
		return nil, d.explain(err)
	}
	conn, err := d.add(raw)
	if err != nil {
		return nil, err
	}
	if err := handshake(ctx, conn, guestPort); err != nil {
		return nil, errors.Join(d.explain(err), conn.Close())
	}
	return conn, nil
}

func (d *guestDialer) explain(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return gone
	}
	return &sandbox.Error{Class: sandbox.Unavailable, Reason: "the guest service does not answer", Retry: true, Err: err}
}

var gone = &sandbox.Error{Class: sandbox.NotFound, Reason: "the sandbox has ended"}

func (d *guestDialer) add(raw net.Conn) (*guestConn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errors.Join(gone, raw.Close())
	}
	conn := &guestConn{raw, d}
	d.open[conn] = struct{}{}
	return conn, nil
}

// cut ends the connections that are open: their other ends have lost them.
func (d *guestDialer) cut() {
	d.mu.Lock()
	open := d.open
	d.open, d.spare = map[*guestConn]struct{}{}, nil
	d.mu.Unlock()
	for conn := range open {
		_ = conn.Conn.Close() // whoever uses it sees its end
	}
}

// broken implements line: a guest that takes no connection may take the next.
func (d *guestDialer) broken() <-chan struct{} { return nil }

// Close implements guestagent.Dialer. It is idempotent.
func (d *guestDialer) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.cut()
	return nil
}

// handshake asks for a port of the guest. The answer is read byte by byte: what
// follows it is the guest's.
func handshake(ctx context.Context, conn net.Conn, port uint32) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	line, err := ask(conn, port)
	if !stop() {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	number, ok := strings.CutPrefix(line, "OK ")
	if _, err := strconv.ParseUint(number, 10, 32); !ok || err != nil {
		return fmt.Errorf("the monitor answered %q", line)
	}
	return nil
}

func ask(conn net.Conn, port uint32) (string, error) {
	if _, err := fmt.Fprintf(conn, "CONNECT %d\n", port); err != nil {
		return "", err
	}
	var line []byte
	for b := make([]byte, 1); len(line) < maxAnswer; line = append(line, b[0]) {
		if n, err := conn.Read(b); n == 0 {
			return "", err
		}
		if b[0] == '\n' {
			return string(line), nil
		}
	}
	return "", fmt.Errorf("the monitor answered %q, and more", line)
}

const (
	// attemptTime is how long one attempt may wait for a guest that boots: its
	// kernel may have lost the request.
	attemptTime = 3 * time.Second
	attemptWait = 5 * time.Millisecond
)

// await waits until the guest service takes connections.
func (d *guestDialer) await(ctx context.Context, ended <-chan struct{}) error {
	for {
		err := d.attempt(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return err
		case <-ctx.Done():
			return &sandbox.Error{Class: sandbox.Timeout, Reason: "the guest service did not answer in time", Err: ctx.Err()}
		case <-time.After(attemptWait):
		}
	}
}

func (d *guestDialer) attempt(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	if d.hasSpare() {
		return nil
	}
	conn, err := d.dial(ctx)
	if err != nil {
		return err
	}
	d.keep(conn)
	return nil
}

func (d *guestDialer) hasSpare() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.spare != nil && time.Since(d.spareSince) < spareTime
}

// keep has a connection be the spare one.
func (d *guestDialer) keep(conn *guestConn) {
	d.mu.Lock()
	before := d.spare
	d.spare, d.spareSince = conn, time.Now()
	d.mu.Unlock()
	if before != nil {
		before.Close()
	}
}
