package gateway

import (
	"net"
	"net/http"
	"sync"
)

// oneConn is a listener with one connection, which has been accepted.
type oneConn struct {
	conn  chan net.Conn
	ended chan struct{}
	once  sync.Once
	addr  net.Addr
	work  tasks
}

func newOneConn(c net.Conn) *oneConn {
	l := &oneConn{conn: make(chan net.Conn, 1), ended: make(chan struct{}), addr: c.LocalAddr()}
	l.conn <- c
	return l
}

// Accept implements net.Listener.
func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

// count has wait wait for a handler: one that took over the connection uses it longer than
// the server does, and so do those of HTTP/2, which the server begins and does not wait for.
// One that begins when the connection has ended answers nobody, and does nothing.
func (l *oneConn) count(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !l.work.begin() {
			return
		}
		defer l.work.end()
		h.ServeHTTP(w, r)
	})
}

func (l *oneConn) wait() {
	<-l.ended
	l.work.close()
}

func (l *oneConn) done()          { l.once.Do(func() { close(l.ended) }) }
func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return l.addr }
