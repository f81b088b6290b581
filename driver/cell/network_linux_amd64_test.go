package cell_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/guest"
	"aether/network"
	"aether/network/networktest"
	"aether/sandbox"
)

// networked makes a cell that may reach what is listed.
func networked(t *testing.T, allow ...string) (*cell.Driver, sandbox.Instance) {
	t.Helper()
	need(t, "python3")
	service := network.New(network.Options{})
	driver := cell.New(cell.Options{Images: images, RunDir: filepath.Join(t.TempDir(), "run"), Network: service})
	t.Cleanup(func() {
		if err := errors.Join(driver.Close(context.Background()), service.Close()); err != nil {
			t.Error(err)
		}
	})
	return driver, create(t, driver, sandbox.Spec{Network: sandbox.Network{Mode: sandbox.EgressNetwork, Allow: allow}})
}

// script runs a program of Python that goes on, and gives what it has said.
func script(t *testing.T, i sandbox.Instance, text string, args ...string) *strings.Builder {
	t.Helper()
	client := guest.NewClient(i.Dial, guest.ClientOptions{})
	t.Cleanup(client.Close)
	out := &strings.Builder{}
	if _, err := client.Start(t.Context(), guest.Cmd{Path: "python3", Args: append([]string{"-uc", text}, args...), Stdout: out, Stderr: out}); err != nil {
		t.Fatal(err)
	}
	return out
}

// shout runs a shell script to its end.
func shout(t *testing.T, i sandbox.Instance, text string) string {
	t.Helper()
	client := guest.NewClient(i.Dial, guest.ClientOptions{})
	defer client.Close()
	var out strings.Builder
	ctx, cancel := context.WithTimeout(t.Context(), patience(20*time.Second))
	defer cancel()
	p, err := client.Start(ctx, guest.Cmd{Path: "sh", Args: []string{"-c", text}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := p.Wait(); err != nil || status.Code != 0 {
		t.Fatalf("%q: %+v, %v: %s", text, status, err, out.String())
	}
	return strings.TrimSpace(out.String())
}

// TestForkWithDatagrams: a socket that is connected to a host goes on in a child, by the
// child's own address.
func TestForkWithDatagrams(t *testing.T) {
	host := networktest.HostAddress(t)
	server, err := net.ListenPacket("udp4", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		buf := make([]byte, 100)
		for {
			n, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = server.WriteTo(buf[:n], from)
		}
	}()
	driver, source := networked(t, host+"/udp")
	_, port, _ := net.SplitHostPort(server.LocalAddr().String())
	script(t, source, `import os, socket, sys, time
c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
c.settimeout(60)
c.connect((sys.argv[1], int(sys.argv[2])))
n = 0
while True:
    n += 1
    while not os.path.exists(f"/tmp/go{n}"): time.sleep(0.01)
    try:
        c.send(b"> x")
        said = c.recv(9).decode()
    except OSError as e: said = str(e)
    open("/tmp/said.new", "w").write(f"{said} by {c.getsockname()[0]}")
    os.rename("/tmp/said.new", f"/tmp/said{n}")`, host, port)
	go1 := func(i sandbox.Instance, n int) string {
		return shout(t, i, fmt.Sprintf("touch /tmp/go%[1]d; until test -e /tmp/said%[1]d; do sleep 0.01; done; cat /tmp/said%[1]d", n))
	}
	first := go1(source, 1)
	children := fork(t, source, 1)
	if again := go1(source, 2); again != first || !strings.HasPrefix(again, "> x by 198.18.") {
		t.Errorf("the source: %q, and before %q", again, first)
	}
	if said := go1(children[0], 2); said == first || !strings.HasPrefix(said, "> x by 198.18.") {
		t.Errorf("the child: %q, the source %q", said, first)
	}
	dir := t.TempDir()
	if err := source.(sandbox.Snapshotter).Snapshot(t.Context(), dir, sandbox.Checkpoint); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience(30*time.Second))
	defer cancel()
	alone, err := driver.Restore(ctx, dir, sandbox.Checkpoint, sandbox.Spec{})
	if err != nil {
		t.Fatalf("without a network: %v", err)
	}
	defer destroy(t, alone)
	if said := go1(alone, 3); strings.HasPrefix(said, "> x") {
		t.Errorf("without a network: %q", said)
	}
}
