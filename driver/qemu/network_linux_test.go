package qemu

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"aether/network"
	"aether/network/networktest"
	"aether/sandbox"
)

// echo is a server of this host that says what it hears.
func echo(t testing.TB) (host, port string) {
	t.Helper()
	l, err := net.Listen("tcp4", networktest.HostAddress(t)+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn) // how it ends is the machine's business
			}()
		}
	}()
	host, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}

// holder keeps a connection, and says over it what it is told by one pipe, and by another
// what comes back.
const holder = `mkfifo /tmp/in /tmp/out; setsid bash -c '
trap "" PIPE
exec 3<>/dev/tcp/%s/%s
while read -r line </tmp/in; do
	said=cut
	echo "$line" >&3 && read -r said <&3 || said=cut
	echo "$said" >/tmp/out
done' >/dev/null 2>&1 </dev/null &`

// wantHeld wants an answer over the connection that is kept.
func wantHeld(t *testing.T, i sandbox.Instance, want string) {
	t.Helper()
	if got := run(t, i, "echo '> hello' >/tmp/in; cat /tmp/out"); got != want {
		t.Errorf("over the connection that it holds %s hears %q, want %q", i.ID(), got, want)
	}
}

// TestNetwork: a connection of a machine outlives a pause and a fork, of which the child has
// it not; and is all that is lost when the process of the gateways dies.
func TestNetwork(t *testing.T) {
	host, port := echo(t)
	service := network.New(network.Options{})
	t.Cleanup(func() {
		if err := service.Close(); err != nil {
			t.Error(err)
		}
	})
	d := driverWith(t, func(o *Options) { o.Network = service })
	spec := testSpec()
	spec.Network = sandbox.Network{Mode: sandbox.EgressNetwork, Allow: []string{host + ":" + port}}
	source, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	machines := []sandbox.Instance{source}
	defer func() { endAll(t, machines) }()
	run(t, source, fmt.Sprintf(holder, host, port))
	wantHeld(t, source, "> hello")
	pauseAndResume(t, source)
	wantHeld(t, source, "> hello")
	children, err := source.(sandbox.Forker).Fork(t.Context(), []sandbox.Spec{{}})
	if err != nil {
		t.Fatal(err)
	}
	machines = append(machines, children...)
	wantHeld(t, source, "> hello")
	wantHeld(t, children[0], "cut")
	anew := fmt.Sprintf("bash -c \"exec 3<>/dev/tcp/%s/%s; echo '> anew' >&3; read -r said <&3; echo \\$said\"", host, port)
	for _, i := range machines {
		if got := run(t, i, anew); got != "> anew" {
			t.Errorf("%s hears %q", i.ID(), got)
		}
	}
	pauser := source.(sandbox.Pauser)
	if err := pauser.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	killGateways(t)
	if err := source.(sandbox.NetworkSetter).SetNetwork(t.Context(), spec.Network); err != nil {
		t.Fatal(err)
	}
	if err := pauser.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, i := range machines {
		if got := run(t, i, anew); got != "> anew" {
			t.Errorf("after the gateways' process was started again, %s hears %q", i.ID(), got)
		}
	}
	wantHeld(t, source, "cut")
	list, _, err := source.(sandbox.NetworkLog).NetworkDecisions(context.Background())
	allowed := func(d sandbox.NetworkDecision) bool {
		return d.Verdict == sandbox.VerdictAllowed && strconv.Itoa(int(d.Port)) == port
	}
	if err != nil || !slices.ContainsFunc(list, allowed) {
		t.Errorf("its log of decisions is %+v, %v", list, err)
	}
}

// killGateways kills the process of the gateways of this program's only service.
func killGateways(t *testing.T) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text))
		if fields[1] != "(aether-net)" || fields[3] != strconv.Itoa(os.Getpid()) {
			continue
		}
		pid, err := strconv.Atoi(fields[0])
		if err != nil {
			t.Fatal(err)
		}
		process, err := os.FindProcess(pid)
		if err == nil {
			err = process.Kill()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
