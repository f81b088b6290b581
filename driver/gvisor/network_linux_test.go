package gvisor_test

import (
	"bufio"
	"fmt"
	"net"
	"testing"

	"aether/driver/command/commandtest"
	"aether/network/networktest"
	"aether/sandbox"
)

// TestBoxForkedConnections: a connection of the source goes on, and a program of the child
// that waits for its own finds it ended.
func TestBoxForkedConnections(t *testing.T) {
	need(t)
	l, err := net.Listen("tcp4", networktest.HostAddress(t)+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan net.Conn, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		if line, err := bufio.NewReader(conn).ReadString('\n'); err == nil {
			fmt.Fprint(conn, line)
		}
		served <- conn
	}()
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	source := commandtest.Create(t, newGVisor(t.TempDir()), sandbox.Spec{Network: sandbox.Network{Mode: sandbox.EgressNetwork, Allow: []string{l.Addr().String()}}})
	await := func(i sandbox.Instance, file string) string {
		t.Helper()
		said, _ := commandtest.Sh(t, i, fmt.Sprintf("until [ -e %[1]s ]; do sleep 0.02; done; cat %[1]s", file))
		return said
	}
	commandtest.Sh(t, source, fmt.Sprintf(`cat > /tmp/hold <<'E'
exec 3<>/dev/tcp/%s/%s
echo '> held' >&3
for file in held last; do read -r line <&3; echo "it was: $line" > /tmp/new; mv /tmp/new /tmp/$file; done
E
nohup bash /tmp/hold > /dev/null 2>&1 < /dev/null &`, host, port))
	if got := await(source, "/tmp/held"); got != "it was: > held" {
		t.Fatalf("%q", got)
	}
	children, err := source.(sandbox.Forker).Fork(t.Context(), make([]sandbox.Spec, 1))
	if err != nil {
		t.Fatal(err)
	}
	if got := await(children[0], "/tmp/last"); got != "it was:" {
		t.Errorf("the child has heard %q", got)
	}
	conn := <-served
	defer conn.Close()
	fmt.Fprintln(conn, "still there")
	if got := await(source, "/tmp/last"); got != "it was: still there" {
		t.Errorf("the source has heard %q", got)
	}
}
