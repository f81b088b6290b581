package rest_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aether/guest"
	"aether/rest"
)

// late is a body that begins when a channel is closed.
type late struct{ when <-chan struct{} }

func (l late) Read(p []byte) (int, error) {
	<-l.when
	return copy(p, "late"), nil
}

// TestRefusedBeforeTheBody: a refusal is what it is also where the daemon has closed the
// connection before the body came. Both are noticed in any order, so it is tried often.
func TestRefusedBeforeTheBody(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	config, public, err := rest.LocalAuthority(dir, []string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "socket")
	for name, listen := range map[string]func() (net.Listener, error){
		"unix": func() (net.Listener, error) { return net.Listen("unix", socket) },
		"tcp":  func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") },
		"tls":  func() (net.Listener, error) { return tls.Listen("tcp", "127.0.0.1:0", config) },
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := listen()
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			at := map[string]string{"unix": "unix://" + socket, "tcp": "http://" + listener.Addr().String(), "tls": "https://" + listener.Addr().String()}[name]
			client, err := rest.NewClient(rest.ClientOptions{URL: at, Authorities: pool(t, public)})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			refusedBeforeTheBody(t, listener, client)
		})
	}
}

func refusedBeforeTheBody(t *testing.T, listener net.Listener, client *rest.Client) {
	for range 100 {
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			conn, err := listener.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
				t.Error(err)
			}
			const refusal = `{"class":"conflict","reason":"the sandbox is paused"}`
			_, err = fmt.Fprintf(conn, "HTTP/1.1 409 Conflict\r\nConnection: close\r\nAether-Error: conflict\r\nContent-Length: %d\r\n\r\n%s", len(refusal), refusal)
			if err := errors.Join(err, conn.Close()); err != nil {
				t.Error(err)
			}
		}()
		of := client.GuestOf("x", guest.ClientOptions{})
		err := of.Write(t.Context(), "/tmp/x", late{closed})
		of.Close()
		if err == nil || !strings.Contains(err.Error(), "paused") {
			t.Fatal(err)
		}
	}
}
