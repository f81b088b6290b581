package docker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"aether/driver/guestagent"
)

// attach joins the standard streams of a container that is not started yet.
func (e *engine) attach(ctx context.Context, container string) (*stream, error) {
	query := url.Values{"stream": {"1"}, "stdin": {"1"}, "stdout": {"1"}, "stderr": {"1"}}
	request, err := e.api.request(ctx, http.MethodPost, "/containers/"+container+"/attach", query, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "tcp")
	answer, err := e.api.do(request)
	if err != nil {
		return nil, err
	}
	conn, ok := answer.Body.(io.ReadWriteCloser)
	if !ok || answer.StatusCode != http.StatusSwitchingProtocols {
		return nil, errors.Join(fmt.Errorf("docker: the daemon gives no streams of a container (status %d)", answer.StatusCode), answer.Body.Close())
	}
	return &stream{conn: conn, from: conn}, nil
}

// Kinds of frames that a daemon sends.
const (
	outFrame    = 1
	errFrame    = 2
	frameHeader = 8
)

// stream is the input and output of a container. The daemon sends what it writes
// to standard output and to standard error in frames; the latter are kept aside.
type stream struct {
	conn io.WriteCloser
	from io.Reader
	left uint32 // of the frame that is being read
	said guestagent.Said
}

// Read gives standard output.
func (s *stream) Read(b []byte) (int, error) {
	for s.left == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n, err := s.from.Read(b[:min(uint64(len(b)), uint64(s.left))])
	s.left -= uint32(n)
	return n, err
}

// next goes on to a frame of standard output.
func (s *stream) next() error {
	var header [frameHeader]byte
	if _, err := io.ReadFull(s.from, header[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(header[4:])
	switch header[0] {
	case outFrame:
		s.left = size
		return nil
	case errFrame:
		_, err := io.CopyN(&s.said, s.from, int64(size))
		return err
	}
	return fmt.Errorf("docker: a frame of kind %d in a container's output", header[0])
}

// Write gives standard input.
func (s *stream) Write(b []byte) (int, error) { return s.conn.Write(b) }

// Close ends the container's input, and with it the guest service. It is
// idempotent.
func (s *stream) Close() error {
	if err := s.conn.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
