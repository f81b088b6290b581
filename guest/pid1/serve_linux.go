package pid1

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"aether/guest/channel"
	"aether/internal/host/vsock"
)

const (
	headerTimeout  = 10 * time.Second
	idleConnection = 2 * time.Minute
	maxHeader      = 64 << 10 // all headers of a request
)

func newServer(handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{Handler: handler, Protocols: protocols, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleConnection}
}

// serve serves until the host is gone for good.
func (c Config) serve(handler http.Handler) error {
	at, err := parseChannel(c.Channel)
	if err != nil {
		return err
	}
	server := newServer(handler)
	defer server.Close()
	switch at.kind {
	case stdioChannel:
		return serveStdio(server)
	case virtioChannel:
		return servePort(server, at.name)
	case unixChannel:
		listener, err := listenUnix(at.name)
		if err != nil {
			return err
		}
		return server.Serve(listener)
	}
	listener, err := vsock.Listen(at.port)
	if err != nil {
		return err
	}
	return server.Serve(hostOnly{listener})
}

// serveStream serves one host over one stream. The stream's end is no failure.
func serveStream(server *http.Server, stream io.ReadWriteCloser) error {
	listener, err := channel.Listen(stream)
	if err == nil {
		err = server.Serve(listener)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// serveStdio serves one host after another over descriptors 0 and 1 until they
// end: in a sandbox that was restored, the next host begins in the middle of
// whatever the last one had to say.
func serveStdio(server *http.Server) error {
	s := &stdio{in: os.Stdin, out: os.Stdout}
	for {
		if err := serveStream(server, s); err != nil || s.ended.Load() {
			return errors.Join(err, s.in.Close(), s.out.Close())
		}
	}
}

// stdio is descriptors 0 and 1 as one stream, which outlives its hosts.
type stdio struct {
	in, out *os.File
	ended   atomic.Bool
}

func (s *stdio) Read(b []byte) (int, error) {
	n, err := s.in.Read(b)
	return n, s.note(err)
}

func (s *stdio) Write(b []byte) (int, error) {
	n, err := s.out.Write(b)
	return n, s.note(err)
}

func (s *stdio) note(err error) error {
	if err != nil {
		s.ended.Store(true)
	}
	return err
}

// Close leaves the descriptors to the next host.
func (s *stdio) Close() error { return nil }

func listenUnix(name string) (net.Listener, error) {
	listener, err := net.Listen("unix", name)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(name, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// hostOnly refuses processes of the machine itself, which could become root by
// asking the service.
type hostOnly struct{ *vsock.Listener }

func (l hostOnly) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if from, ok := conn.RemoteAddr().(vsock.Addr); ok && from.CID == vsock.Host {
			return conn, nil
		}
		conn.Close()
	}
}

// hostGone is how long a port whose host has closed its end is left alone.
const hostGone = 20 * time.Millisecond

// servePort serves a virtio-serial port to one host after another. A port without
// a host reads as ended, so it is opened again until there is one.
func servePort(server *http.Server, name string) error {
	for {
		device, err := findPort(name)
		if err != nil {
			return err
		}
		port, err := os.OpenFile(device, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		// How a connection to one host ended does not matter to the next.
		_ = serveStream(server, port)
		port.Close()
		time.Sleep(hostGone)
	}
}

// portTime is how long a port may take to appear after its driver was loaded.
const portTime = 30 * time.Second

func findPort(name string) (string, error) {
	for deadline := time.Now().Add(portTime); ; time.Sleep(5 * time.Millisecond) {
		names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		if err != nil {
			return "", err
		}
		for _, file := range names {
			text, err := os.ReadFile(file)
			if err == nil && strings.TrimSpace(string(text)) == name {
				return "/dev/" + filepath.Base(filepath.Dir(file)), nil
			}
		}
		if time.Now().After(deadline) {
			return "", errors.New("there is no virtio-serial port named " + name)
		}
	}
}
