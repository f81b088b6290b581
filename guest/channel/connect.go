package channel

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"aether/sandbox"
)

const (
	// repeatAfter is when a greeting that nobody answered is sent again.
	repeatAfter = 50 * time.Millisecond
	// patience is how many greetings are sent before a guest is taken to be in
	// the middle of a frame, which padding then fills up.
	patience   = 20
	maxPadding = 256 << 10
)

// Dialer is the host's end of a stream.
type Dialer struct {
	session *yamux.Session
	mu      sync.Mutex // keeps the count of streams and the opening of one together
}

// Connect greets the guest and returns when it answers. It takes the stream over,
// also when it fails. Errors: Timeout when the context ends, else what the stream
// says.
func Connect(ctx context.Context, s io.ReadWriteCloser) (*Dialer, error) {
	stop := context.AfterFunc(ctx, func() { s.Close() })
	r := bufio.NewReader(s)
	err := greet(r, s)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		return nil, connectError(errors.Join(err, s.Close()))
	}
	session, err := yamux.Client(stream{&guard{from: r}, s}, config())
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &Dialer{session: session}, nil
}

// Await returns when the guest answers, and leaves it waiting for a host: whoever
// saves a machine in this state has one that Connect finds at once. It takes the
// stream over if it fails. Errors: as Connect.
func Await(ctx context.Context, s io.ReadWriteCloser) error {
	stop := context.AfterFunc(ctx, func() { s.Close() })
	_, err := hail(bufio.NewReader(s), s)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		return connectError(errors.Join(err, s.Close()))
	}
	return nil
}

func connectError(err error) error {
	e := &sandbox.Error{Class: sandbox.Unavailable, Op: "channel", Reason: "the guest service did not answer", Err: err}
	if errors.Is(err, context.DeadlineExceeded) {
		e.Class = sandbox.Timeout
	}
	return e
}

// greet says hello until the guest answers, and then that frames begin.
func greet(r *bufio.Reader, w io.WriteCloser) error {
	of, err := hail(r, w)
	if err != nil {
		return err
	}
	if err := (greeting{begin, of}).send(w); err != nil {
		return err
	}
	return await(r, greeting{ready, of})
}

// hail says hello until the guest answers.
func hail(r *bufio.Reader, w io.WriteCloser) (nonce, error) {
	of := newNonce()
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() { stopped <- repeat(w, of, stop) }()
	heard := await(r, greeting{here, of})
	close(stop)
	if heard != nil {
		w.Close() // or a greeting that nobody takes would be waited for
	}
	// Nothing may be written between the last greeting and the frames.
	return of, errors.Join(heard, <-stopped)
}

func repeat(w io.Writer, of nonce, stop <-chan struct{}) error {
	padding := 0
	for n := 1; ; n++ {
		if n > patience {
			padding = min(max(2*padding, 1<<10), maxPadding)
		}
		message := append(bytes.Repeat([]byte{0xff}, padding), greeting{hello, of}.bytes()...)
		if _, err := w.Write(message); err != nil {
			return err
		}
		select {
		case <-stop:
			return nil
		case <-time.After(repeatAfter):
		}
	}
}

// Dial opens one more connection. Errors: NotFound once the stream has ended,
// Exhausted when too many are open.
func (d *Dialer) Dial(ctx context.Context) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	opened := make(chan result, 1)
	go func() {
		conn, err := d.open()
		opened <- result{conn, err}
	}()
	select {
	case r := <-opened:
		return r.conn, r.err
	case <-ctx.Done():
		go func() {
			if r := <-opened; r.err == nil {
				r.conn.Close()
			}
		}()
		return nil, fmt.Errorf("channel: %w", ctx.Err())
	}
}

func (d *Dialer) open() (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.session.NumStreams() >= maxStreams {
		return nil, &sandbox.Error{Class: sandbox.Exhausted, Op: "channel", Reason: fmt.Sprintf("%d connections are open", maxStreams), Retry: true}
	}
	conn, err := d.session.OpenStream()
	switch {
	case err == nil:
		return conn, nil
	case d.session.IsClosed():
		return nil, &sandbox.Error{Class: sandbox.NotFound, Op: "channel", Reason: "the guest service is gone", Err: err}
	}
	return nil, &sandbox.Error{Class: sandbox.Unavailable, Op: "channel", Reason: "the guest service takes no connection", Retry: true, Err: err}
}

// Done is closed when the stream has ended.
func (d *Dialer) Done() <-chan struct{} { return d.session.CloseChan() }

// Close ends the stream and all connections. It is idempotent.
func (d *Dialer) Close() error { return d.session.Close() }
