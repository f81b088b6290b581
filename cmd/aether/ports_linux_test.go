package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shouter answers what it was sent in capitals.
const shouter = `import socket
l = socket.create_server(("127.0.0.1", 7700))
print("ready", flush=True)
while True:
    c = l.accept()[0]
    text = b""
    while part := c.recv(4096):
        text += part
    c.sendall(text.upper())
    c.close()
`

// shout says something to an address and gives the answer.
func shout(t *testing.T, address string) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return err.Error() // it may be reset before it is made
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err = io.WriteString(conn, "hello"); err != nil {
		return err.Error()
	}
	_ = conn.(*net.TCPConn).CloseWrite() // of one that was reset by now, which reading tells
	answer, err := io.ReadAll(conn)
	if err != nil {
		return err.Error()
	}
	return string(answer)
}

// TestPortForward: a port of a sandbox of the daemon's is reached by one of this host, and
// one at which nothing listens says so; an interrupt ends it, and so does the sandbox's end.
func TestPortForward(t *testing.T) {
	needs(t, "/usr/bin/python3")
	s := serve(t, t.TempDir())
	t.Setenv("AETHER_URL", "unix://"+s.socket)
	id := strings.TrimSpace(command(t, "", "create").stdout)
	if got := command(t, "", "exec", "--detach", id, "--", "/usr/bin/python3", "-c", shouter); got.status != 0 {
		t.Fatalf("%+v", got)
	}
	forward := aether(t, "port-forward", id, "0:7700", "0:7701", "--json")
	out, err := forward.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaint strings.Builder
	forward.Stderr = &complaint
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = forward.Process.Kill() })
	lines := bufio.NewScanner(out)
	var at [2]struct{ Local string }
	for i := range at {
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &at[i]) != nil {
			t.Fatalf("%s: %v", lines.Text(), lines.Err())
		}
	}
	for end := time.Now().Add(patience); shout(t, at[0].Local) != "HELLO"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not answer")
		}
	}
	if got := shout(t, at[1].Local); !strings.Contains(got, "reset") {
		t.Errorf("a port at which nothing listens: %q", got)
	}
	if got := command(t, "", "rm", id); got.status != 0 {
		t.Fatalf("%+v", got)
	}
	shout(t, at[0].Local)
	err = forward.Wait()
	if err == nil || !strings.Contains(complaint.String(), "nothing listens at port 7701") || !strings.Contains(complaint.String(), "ended") {
		t.Errorf("%v: %s", err, &complaint)
	}
}

// TestRunPublishes: a command that listens is reached while it runs.
func TestRunPublishes(t *testing.T) {
	needs(t, "/usr/bin/python3")
	cmd := aether(t, "run", "-p", "0:7700", "--", "/usr/bin/python3", "-c", shouter)
	complaint, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(complaint)
	if !lines.Scan() || !strings.HasSuffix(lines.Text(), " -> 7700") {
		t.Fatalf("%q, %v", lines.Text(), lines.Err())
	}
	expect(t, out, "ready")
	address := strings.TrimSuffix(strings.TrimPrefix(lines.Text(), "aether: "), " -> 7700")
	if got := shout(t, address); got != "HELLO" {
		t.Errorf("%q", got)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != statusOf(syscall.SIGTERM) {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Error("its port is still here")
	}
}

func statusOf(sig syscall.Signal) int { return 128 + int(sig) }

// TestNetByCommand: what a sandbox of the daemon's may reach is shown, changed and told of.
func TestNetByCommand(t *testing.T) {
	program, err := gateways()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("AETHER_NET", program)
	s := serve(t, t.TempDir())
	t.Setenv("AETHER_URL", "unix://"+s.socket)
	id := strings.TrimSpace(command(t, "", "create", "--allow", "one.example:443", "--net-rate", "1M").stdout)
	wants := func(want string, args ...string) {
		t.Helper()
		if got := command(t, "", args...); got.status != 0 || !strings.Contains(got.stdout, want) {
			t.Errorf("%v: %+v", args, got)
		}
	}
	wants("allow  one.example:443\nrate   1.0 MiB/s", "net", "show", id)
	wants("tried", "exec", id, "--", "bash", "-c", "getent hosts two.example; echo tried")
	wants("denied   dns   two.example  no rule allows it", "net", "log", id)
	wants("requests  GET two.example /v1/*, sets X-A\n", "net", "set", id, "--allow-request", "GET two.example/v1/*", "--set-header", "two.example X-A: b")
	wants(`"allow": [`, "net", "show", id, "--json")
	for args, says := range map[string]string{
		"net set " + id + " --allow a:b:c":                     "--allow",
		"net set " + id + " --set-header x":                    "--set-header",
		"net set " + id + " --allow-request x/../y":            "--allow-request",
		"net set " + id + " --proxy ftp://x":                   "--proxy",
		"net log 00000000000000000000":                         "no sandbox",
		"port-forward " + id + " x:80":                         "LOCAL:PORT",
		"create --template x --net host":                       "--net",
		"create --set-header x.example:443,Authorization:${A}": "--set-header",
	} {
		if got := command(t, "", strings.Fields(args)...); got.status == 0 || !strings.Contains(got.stderr, says) {
			t.Errorf("%s: %+v", args, got)
		}
	}
}
