package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// PortConn is a connection to a port of a sandbox.
type PortConn interface {
	io.ReadWriteCloser
	// CloseWrite tells the port that nothing more comes.
	CloseWrite() error
}

// DialPort connects to a port of the sandbox's own loopback. The context bounds the
// connecting only. Errors: Unavailable if nothing listens there.
func (c *Client) DialPort(ctx context.Context, port int) (PortConn, error) {
	op := fmt.Sprintf("connect to port %d", port)
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	body, to := io.Pipe()
	s := &portConn{to: to, end: end}
	req, err := http.NewRequestWithContext(life, http.MethodPost, fmt.Sprintf("%s/aether/ports/%d", clientURL, port), body)
	if err != nil {
		return nil, clientError(op, err)
	}
	c.opts.mark(req.Header)
	req.Header.Set("Content-Type", "application/octet-stream")
	res, err := c.http.Do(req)
	if err != nil {
		end()
		return nil, clientError(op, errors.Join(ctx.Err(), err))
	}
	s.answer = res.Body
	if !stop() {
		return nil, clientError(op, errors.Join(ctx.Err(), s.Close()))
	}
	if res.StatusCode == http.StatusOK {
		return s, nil
	}
	defer s.Close()
	var failure httpErrorBody
	if err := json.NewDecoder(io.LimitReader(res.Body, maxHTTPError)).Decode(&failure); err != nil {
		failure.Message = res.Status
	}
	return nil, clientStatus(op, res.StatusCode, failure.Message)
}

type portConn struct {
	to     *io.PipeWriter
	answer io.ReadCloser
	end    context.CancelFunc
}

func (s *portConn) Read(p []byte) (int, error)  { return s.answer.Read(p) }
func (s *portConn) Write(p []byte) (int, error) { return s.to.Write(p) }
func (s *portConn) CloseWrite() error           { return s.to.Close() }

// Close ends both directions.
func (s *portConn) Close() error {
	s.end()
	s.to.CloseWithError(io.ErrClosedPipe)
	if err := s.answer.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
