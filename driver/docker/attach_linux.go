package docker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/moby/moby/client"

	"aether/driver/daemon"
)

// attach joins the standard streams of a container that is not started yet.
func (e *engine) attach(ctx context.Context, container string) (*stream, error) {
	var stop func() bool
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", e.socket)
		if err == nil {
			// The client waits for the answer to this one request without an end.
			stop = context.AfterFunc(ctx, func() { conn.Close() })
		}
		return conn, err
	}
	api, err := connect(e.socket, client.WithAPIVersion(e.api.ClientVersion()), client.WithDialContext(dial))
	if err != nil {
		return nil, err
	}
	answer, err := api.ContainerAttach(ctx, container, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if stop != nil && !stop() && err == nil {
		answer.Close()
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return &stream{conn: answer.Conn, from: answer.Reader}, nil
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
	conn net.Conn
	from io.Reader
	left uint32 // of the frame that is being read
	said daemon.Said
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
