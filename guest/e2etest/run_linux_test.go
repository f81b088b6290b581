package e2etest_test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"aether/guest"
	"aether/guest/e2etest"
	"aether/guest/local"
)

// TestOfficialClient lets the client at a service that runs in this very system.
func TestOfficialClient(t *testing.T) {
	if _, err := os.Stat("/bin/bash"); err != nil {
		t.Skip("this host has no bash, which the client runs every command with")
	}
	backend, err := local.New("/", "")
	if err != nil {
		t.Fatal(err)
	}
	service, err := guest.New(backend, guest.Options{DefaultUser: strconv.Itoa(os.Getuid())})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go service.Serve(listener)
	t.Cleanup(func() { service.Close() })
	e2etest.Run(t, "http://"+listener.Addr().String(), filepath.Join(t.TempDir(), "work"))
}
