//go:build linux

package guest

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"aether/sandbox"
)

// port connects a caller to a port of the sandbox's own loopback: the body goes there as it
// comes, and the answer is what comes back. The end of the body is told to the port, and
// the end of what comes back ends the answer.
func (s *Service) port(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	if r.ProtoMajor == 1 { // or a refusal waits for the end of the body
		if err := control.EnableFullDuplex(); err != nil {
			httpError(w, err)
			return
		}
		w.Header().Set("Connection", "close") // what is left of the body is no request
	}
	number, err := strconv.ParseUint(r.PathValue("port"), 10, 16)
	if err != nil || number == 0 {
		httpError(w, sandbox.Invalidf("port", "%s is none", clip(r.PathValue("port"))))
		return
	}
	conn, err := s.backend.Connect(r.Context(), uint16(number))
	if err != nil {
		httpError(w, err)
		return
	}
	defer conn.Close()
	defer context.AfterFunc(r.Context(), func() { conn.Close() })()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(http.StatusOK)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		sendOn(conn, r.Body)
	}()
	broken := handOn(w, control, conn)
	// Whoever reads the body is not waited for: its sender may have more to say to nobody.
	_ = control.SetReadDeadline(time.Now()) // HTTP/2 has none, and ends the stream itself
	conn.Close()
	<-sent
	if broken != nil {
		panic(http.ErrAbortHandler) // so that the caller does not take it for the end
	}
}

// halfCloser is a connection that can be told that nothing more comes.
type halfCloser interface{ CloseWrite() error }

// sendOn sends a body and its end. A port that takes no more is told of by what it answers.
func sendOn(conn net.Conn, body io.Reader) {
	if _, err := io.Copy(conn, body); err != nil {
		return
	}
	if half, ok := conn.(halfCloser); ok {
		_ = half.CloseWrite()
	}
}

// handOn gives what comes at once.
func handOn(w io.Writer, control *http.ResponseController, from io.Reader) error {
	part := make([]byte, 32<<10)
	for {
		if err := control.Flush(); err != nil { // first the header
			return err
		}
		n, err := from.Read(part)
		if n > 0 {
			if _, failed := w.Write(part[:n]); failed != nil {
				return failed
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
