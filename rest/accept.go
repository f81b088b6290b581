package rest

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"aether/engine"
)

// conn is a connection of a Listener.
type conn struct {
	net.Conn
	who     *engine.Caller // nil where a key has to tell
	open    bool
	once    sync.Once
	release func()
	left    atomic.Bool // its user may still send what nobody waits for
}

// Close implements net.Conn.
func (c *conn) Close() error {
	if c.left.Swap(false) && c.linger() {
		return nil
	}
	c.once.Do(c.release)
	return c.Conn.Close()
}

// halfCloser is a connection that can be told that nothing more comes.
type halfCloser interface{ CloseWrite() error }

// lingerTime is how long a connection is read from after the last answer.
const lingerTime = 10 * time.Second

// linger ends what is sent by a connection, and then reads what is still sent to it: whoever
// sends to one that is closed is told of that, and may not come to read the answer.
func (c *conn) linger() bool {
	half, ok := c.Conn.(halfCloser)
	if !ok || half.CloseWrite() != nil || c.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return false
	}
	go func() {
		_, _ = io.Copy(io.Discard, c.Conn)
		_ = c.Close() // which may have happened
	}()
	return true
}

// acceptor accepts so many connections of a Listener at once; the next ones wait for one
// to be closed.
type acceptor struct {
	*Listener
	room chan struct{}
	once sync.Once
	done chan struct{}
}

func newAcceptor(l *Listener, most int) net.Listener {
	a := &acceptor{Listener: l, room: make(chan struct{}, most), done: make(chan struct{})}
	if l.tls != nil {
		return tls.NewListener(a, l.tls)
	}
	return a
}

// Accept implements net.Listener.
func (a *acceptor) Accept() (net.Conn, error) {
	for {
		select {
		case a.room <- struct{}{}:
		case <-a.done:
			return nil, net.ErrClosed
		}
		c, err := a.accept()
		if !errors.Is(err, errStranger) {
			return c, err
		}
	}
}

// accept has room for one connection, which it gives back if there is none.
func (a *acceptor) accept() (_ net.Conn, err error) {
	release := func() { <-a.room }
	raw, err := a.Listener.Accept()
	if err != nil {
		release()
		return nil, err
	}
	c := &conn{Conn: raw, open: a.open, release: release}
	if a.identify == nil {
		return c, nil
	}
	who, err := a.identify(raw)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		err = errStranger // or gone already: nothing that ends the listener
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.who = &who
	return c, nil
}

// Close implements net.Listener.
func (a *acceptor) Close() error {
	a.once.Do(func() { close(a.done) })
	return a.Listener.Close()
}

type connKey struct{}

// remember puts a connection into the contexts of its requests.
func remember(ctx context.Context, c net.Conn) context.Context {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// connOf is the connection of a request, or nil where the server is another's.
func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}
