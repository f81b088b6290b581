package channel

import (
	"bufio"
	"io"
	"net"

	"github.com/hashicorp/yamux"
)

// Listen is the guest's end of a stream. It returns when a host has greeted it.
// The listener ends with the stream, and closes it when it is closed.
func Listen(s io.ReadWriteCloser) (net.Listener, error) {
	r := bufio.NewReader(s)
	if err := answer(r, s); err != nil {
		return nil, err
	}
	session, err := yamux.Server(stream{&guard{from: r, ofHost: true}, s}, config())
	if err != nil {
		return nil, err
	}
	return listener{session}, nil
}

type listener struct{ *yamux.Session }

// Accept ends with io.EOF, however the stream has ended: a host that goes closes
// one direction before the other.
func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Session.Accept()
	if err != nil {
		return nil, io.EOF
	}
	return conn, nil
}

// answer answers greetings until one host says that frames begin.
func answer(r *bufio.Reader, w io.Writer) error {
	var last nonce
	for {
		g, err := nextGreeting(r)
		if err != nil {
			return err
		}
		switch {
		case g.kind == hello:
			last = g.of
			err = greeting{here, g.of}.send(w)
		case g.kind == begin && g.of == last:
			return greeting{ready, g.of}.send(w)
		}
		if err != nil {
			return err
		}
	}
}
