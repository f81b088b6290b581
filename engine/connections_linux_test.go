package engine_test

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"aether/driver/cell"
	"aether/engine"
	"aether/guest"
	"aether/image"
	"aether/network"
	"aether/network/networktest"
	"aether/sandbox"
)

// echo serves whoever connects to an address of this host.
func echo(t *testing.T) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(networktest.Echo(t, networktest.HostAddress(t)))
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}

// openNetworked begins an engine whose cells may have networks.
func (h *house) openNetworked() *engine.Engine {
	h.t.Helper()
	if err := builtNetwork(); err != nil {
		h.t.Fatal(err)
	}
	service := network.New(network.Options{})
	h.t.Cleanup(func() {
		if err := service.Close(); err != nil {
			h.t.Error(err)
		}
	})
	options := h.options()
	options.Drivers = []sandbox.Maker{{Name: cell.Name, New: func() sandbox.Driver {
		return cell.New(cell.Options{Images: func() (*image.Store, error) { return image.Open(filepath.Join(h.dir, "images")) },
			RunDir: filepath.Join(h.dir, "run"), Network: service})
	}}}
	e, err := engine.Open(options)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { h.close(e) })
	return e
}

// closedIn is what the last event of a kind says of a sandbox's connections.
func closedIn(t *testing.T, e *engine.Engine, id string, kind engine.EventKind) (closed string) {
	t.Helper()
	closed = "no such event"
	for _, event := range happened(t, e, alice) {
		if event.Sandbox == id && event.Kind == kind {
			closed = event.Detail["connections_closed"]
		}
	}
	return closed
}

// TestClosedConnectionsAreTold: a sandbox with an open connection is forked, paused and
// resumed; its program finds the connection reset and makes another, and the events say
// how many there were.
func TestClosedConnectionsAreTold(t *testing.T) {
	need(t, "python3")
	h := newHouse(t, sandbox.Checkpoint)
	host, port := echo(t)
	h.access.Default.Policy.Egress = []string{host}
	e := h.openNetworked()
	id := create(t, e, alice, engine.CreateRequest{Spec: sandbox.Spec{Network: sandbox.Network{Mode: sandbox.EgressNetwork, Allow: []string{host}}}}).ID
	client, release, err := e.Guest(t.Context(), alice, id)
	if err != nil {
		t.Fatal(err)
	}
	const talk = `
import socket, sys, time
made = 0
while True:
    made += 1
    try:
        with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as c:
            while True:
                c.sendall(b"> x")
                if not c.recv(9): break
                open(f"/tmp/connection{made}", "w").close(); time.sleep(0.05)
    except ConnectionResetError: open(f"/tmp/reset{made}", "w").close()`
	running, err := client.Start(t.Context(), guest.Cmd{Path: "python3", Args: []string{"-c", talk, host, port}})
	if err != nil {
		t.Fatal(err)
	}
	running.Close()
	release()
	reaches := func(id string, connection int) {
		t.Helper()
		sh(t, e, alice, id, fmt.Sprintf("until [ -e /tmp/connection%d ]; do sleep 0.01; done", connection))
	}
	reaches(id, 1)
	children, err := e.Fork(t.Context(), alice, id, engine.ForkRequest{})
	if err != nil {
		t.Fatal(err)
	}
	reaches(children[0].ID, 2)
	if left := sh(t, e, alice, id, "ls /tmp"); strings.Contains(left, "reset") {
		t.Errorf("the source has %q", left)
	}
	if _, err := e.Pause(t.Context(), alice, id, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Resume(t.Context(), alice, id, ""); err != nil {
		t.Fatal(err)
	}
	reaches(id, 2)
	sh(t, e, alice, id, "test -e /tmp/reset1")
	for _, told := range []struct {
		id   string
		kind engine.EventKind
		want string
	}{{id, engine.EventCreated, ""}, {id, engine.EventForked, "1"}, {children[0].ID, engine.EventCreated, "1"}, {id, engine.EventPaused, "1"}, {id, engine.EventResumed, "1"}} {
		if got := closedIn(t, e, told.id, told.kind); got != told.want {
			t.Errorf("%s says that %q connections were closed, not %q", told.kind, got, told.want)
		}
	}
}
