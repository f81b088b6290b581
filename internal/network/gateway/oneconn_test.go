package gateway

import (
	"net"
	"net/http"
	"testing"
)

// TestNoHandlerBeginsAfterItsConnection: servers of HTTP/2 have handlers in goroutines that
// may begin when the connection has ended, and nobody waits for them then.
func TestNoHandlerBeginsAfterItsConnection(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	began, end := make(chan struct{}), make(chan struct{})
	one := newOneConn(theirs)
	go one.count(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(began); <-end })).ServeHTTP(nil, nil)
	<-began
	one.done()
	waited := make(chan struct{})
	go func() { one.wait(); close(waited) }()
	select {
	case <-waited:
		t.Error("a handler was not waited for")
	default:
	}
	close(end)
	<-waited
	one.count(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a handler began after its connection") })).ServeHTTP(nil, nil)
}
