// Package unread knows whether the body of a request was read to its end when the answer
// begins. Of HTTP/1, Go's server reads so much of what is left of a body, where both
// directions go on at once, and closes the connection if there is more: the answer has to
// say so, or its reader sends the next request on that connection.
package unread

import (
	"io"
	"net/http"
	"sync/atomic"
)

// Body is that of a request of HTTP/1; nil is one that nothing is ever left of.
type Body struct {
	io.ReadCloser
	ended atomic.Bool
}

// Of gives the request with a body that knows its end. The server looks at that of its own
// request, which is left as it is.
func Of(r *http.Request) (*http.Request, *Body) {
	if r.ProtoMajor != 1 || r.ContentLength == 0 {
		return r, nil
	}
	b := &Body{ReadCloser: r.Body}
	r = r.WithContext(r.Context())
	r.Body = b
	return r, b
}

// Read implements io.Reader.
func (b *Body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.ended.Store(true)
	}
	return n, err
}

// CloseAfter has an answer that begins now say that the connection ends with it, if some of
// the body is left.
func (b *Body) CloseAfter(answer http.Header) {
	if b != nil && !b.ended.Load() {
		answer.Set("Connection", "close")
	}
}
