package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aether/engine"
	"aether/guest"
	"aether/rest"
	"aether/sandbox"
)

// service is a daemon that a test has started.
type service struct {
	t        *testing.T
	cmd      *exec.Cmd
	state    string
	socket   string
	address  string // of TCP
	complain *complaints
	heard    chan struct{} // closed when its log has ended
}

// complaints are the lines of a daemon's log, which may be read while it goes on.
type complaints struct {
	mu   sync.Mutex
	text strings.Builder
}

func (c *complaints) add(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.WriteString(line + "\n")
}

func (c *complaints) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// serve starts a daemon on a state directory and waits until it listens.
func serve(t *testing.T, state string, flags ...string) *service {
	t.Helper()
	return serveOn(t, "cell", state, flags...)
}

// serveOn is serve with a driver.
func serveOn(t *testing.T, driver, state string, flags ...string) *service {
	t.Helper()
	s := &service{t: t, state: state, complain: &complaints{}, heard: make(chan struct{})}
	args := append([]string{"serve", "--state", state, "--listen", "127.0.0.1:0", "--driver", driver}, flags...)
	s.cmd = aether(t, args...)
	log, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			s.stop(syscall.SIGTERM)
		}
	})
	s.awaitListening(log)
	return s
}

// awaitListening reads where the daemon listens from its log, the rest of which it keeps.
func (s *service) awaitListening(log io.Reader) {
	s.t.Helper()
	lines := bufio.NewScanner(log)
	for s.address == "" && lines.Scan() {
		var line struct{ Msg, Address string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Msg != "listening" {
			s.complain.add(lines.Text())
		} else if filepath.IsAbs(line.Address) {
			s.socket = line.Address
		} else {
			s.address = line.Address
		}
	}
	if s.address == "" {
		s.t.Fatalf("the daemon does not listen: %s", s.complain)
	}
	go func() {
		defer close(s.heard)
		for lines.Scan() {
			s.complain.add(lines.Text())
		}
	}()
}

// stop ends the daemon and gives its status.
func (s *service) stop(sig syscall.Signal) int {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
	<-s.heard
	var status *exec.ExitError
	if err := s.cmd.Wait(); err != nil && !errors.As(err, &status) {
		s.t.Fatal(err)
	}
	return s.cmd.ProcessState.ExitCode()
}

func (s *service) client() *rest.Client {
	s.t.Helper()
	return dialService(s.t, "unix://"+s.socket, "")
}

func dialService(t *testing.T, url, key string) *rest.Client {
	t.Helper()
	c, err := rest.NewClient(rest.ClientOptions{URL: url, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// say runs a script in a sandbox and gives what it prints.
func say(t *testing.T, c *rest.Client, id, script string) string {
	t.Helper()
	inside, release, err := c.Guest(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	var out strings.Builder
	running, err := inside.Start(t.Context(), guest.Cmd{Path: "/bin/sh", Args: []string{"-c", script}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := running.Wait(); err != nil || status.Code != 0 {
		t.Fatalf("%s: %+v, %v: %s", script, status, err, out.String())
	}
	return strings.TrimSpace(out.String())
}

// TestDaemonRemembers: what was made to be kept goes on in the next daemon, and what was
// not has ended with the reason.
func TestDaemonRemembers(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the memory of cells is kept on amd64 only")
	}
	state := t.TempDir()
	first := serve(t, state)
	c := first.client()
	kept, err := c.Create(t.Context(), engine.CreateRequest{Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	brief, err := c.Create(t.Context(), engine.CreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	say(t, c, kept.ID, "echo remembered > /tmp/x")
	code := func(d *service, restart bool) called {
		over := &mcp.StreamableClientTransport{Endpoint: "http://" + d.address + "/mcp", HTTPClient: &http.Client{Transport: keyed{newKey(t, state, "--operator")}}}
		return call(t, speak(t, over, ""), "code_run", map[string]any{"sandbox": kept.ID, "language": "bash", "code": "n=$((n + 1)); echo $n", "restart": restart})
	}
	for want := range 2 {
		if ran := code(first, false); ran.Error != nil || ran.Stdout.Text != fmt.Sprintln(want+1) {
			t.Errorf("the code says %+v", ran)
		}
	}
	if status := first.stop(syscall.SIGTERM); status != 0 {
		t.Errorf("status %d: %s", status, first.complain)
	}

	second := serve(t, state)
	c = second.client()
	// Of the interpreter nobody knows any more: that is said, before code is run in another.
	// A tool waits for what the last daemon interrupted, as everybody else does.
	if ran := code(second, false); ran.Error == nil || ran.Error.Class != "conflict" || ran.Error.Field != "restart" {
		t.Errorf("the code says %+v", ran)
	}
	if ran := code(second, true); ran.Error != nil || ran.Stdout.Text != "1\n" {
		t.Errorf("the code says %+v", ran)
	}
	if ran := code(second, false); ran.Error != nil || ran.Stdout.Text != "2\n" {
		t.Errorf("the code says %+v", ran)
	}
	if got := say(t, c, kept.ID, "cat /tmp/x"); got != "remembered" {
		t.Errorf("it has %q", got)
	}
	if got, err := c.Get(t.Context(), brief.ID); err != nil || got.State != engine.Ended || got.Exit.Cause != sandbox.Stopped {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestOneDaemonOnAState: the second says in one line that there is one.
func TestOneDaemonOnAState(t *testing.T) {
	state := t.TempDir()
	serve(t, state)
	got := command(t, "", "serve", "--state", state, "--driver", "cell")
	if got.status != 1 || !strings.Contains(got.stderr, "another") {
		t.Errorf("%+v", got)
	}
}

// TestKeysOpenTheDaemon: over TCP a key decides who calls, from the moment that it is made
// and until it is revoked, and what its tenant may.
func TestKeysOpenTheDaemon(t *testing.T) {
	state := t.TempDir()
	config := filepath.Join(state, "tenants.json")
	if err := os.WriteFile(config, []byte(`{"default": {"policy": {"unbounded_memory": true, "unbounded_disk": true}, "quota": {"sandboxes": 1}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, state, "--config", config)
	url := "http://" + s.address
	_, err := dialService(t, url, "").List(t.Context(), engine.Query{})
	wantClass(t, err, sandbox.Denied)
	_, err = dialService(t, url, "e2b_"+strings.Repeat("0", 40)).List(t.Context(), engine.Query{})
	wantClass(t, err, sandbox.Denied)

	acme := dialService(t, url, newKey(t, state, "--tenant", "acme"))
	other := dialService(t, url, newKey(t, state, "--tenant", "other"))
	operator := dialService(t, url, newKey(t, state, "--operator"))
	made, err := acme.Create(t.Context(), engine.CreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.Get(t.Context(), made.ID)
	wantClass(t, err, sandbox.NotFound)
	if _, err := operator.Get(t.Context(), made.ID); err != nil {
		t.Error(err)
	}
	_, err = acme.Create(t.Context(), engine.CreateRequest{})
	wantClass(t, err, sandbox.Exhausted)
	_, err = other.Create(t.Context(), engine.CreateRequest{Spec: sandbox.Spec{Mounts: []sandbox.Mount{{Source: "/etc", Target: "/x"}}}})
	wantClass(t, err, sandbox.Denied)

	if got := fetch(t, url+"/metrics", newKey(t, state, "--operator")); !strings.Contains(got, `aether_sandboxes{driver="cell",state="running"} 1`) {
		t.Errorf("the metrics are %s", got)
	}
	for _, k := range listKeys(t, state) {
		if got := command(t, "", "key", "revoke", k.ID, "--state", state); got.status != 0 {
			t.Fatalf("%+v", got)
		}
	}
	_, err = acme.Get(t.Context(), made.ID)
	wantClass(t, err, sandbox.Denied)
	s.stop(syscall.SIGTERM)
	wantTrail(t, state, "sandbox.create ok", "sandbox.create exhausted", "sandbox.create denied", "sandbox.get not_found", "sandbox.list denied")
}

// fetch gives what a path of the daemon answers.
func fetch(t *testing.T, url, key string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", key)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// wantTrail wants calls on the audit trail, by what they were and their result.
func wantTrail(t *testing.T, state string, calls ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(state, "audit.1"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		var entry struct{ What, Result string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		seen[entry.What+" "+entry.Result] = true
	}
	for _, call := range calls {
		if !seen[call] {
			t.Errorf("no %s is on the trail: %s", call, text)
		}
	}
}

func newKey(t *testing.T, state string, flags ...string) string {
	t.Helper()
	got := command(t, "", append([]string{"key", "create", "--state", state}, flags...)...)
	key := strings.TrimSpace(got.stdout)
	if got.status != 0 || len(key) != 44 || !strings.HasPrefix(key, "e2b_") {
		t.Fatalf("%+v", got)
	}
	return key
}

func listKeys(t *testing.T, state string) (list []struct{ ID string }) {
	t.Helper()
	if err := json.Unmarshal([]byte(command(t, "", "key", "list", "--json", "--state", state).stdout), &list); err != nil || len(list) != 4 {
		t.Fatalf("%v, %v", list, err)
	}
	return list
}

func wantClass(t *testing.T, err error, want sandbox.Class) {
	t.Helper()
	if err == nil || sandbox.ClassOf(err) != want {
		t.Errorf("%v, want class %v", err, want)
	}
}

// TestDaemonReloads its configuration at SIGHUP, and keeps the old one where the new one
// is faulty.
func TestDaemonReloads(t *testing.T) {
	state := t.TempDir()
	config := filepath.Join(state, "tenants.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{}`)
	s := serve(t, state, "--config", config)
	acme := dialService(t, "http://"+s.address, newKey(t, state, "--tenant", "acme"))
	mount := engine.CreateRequest{Spec: sandbox.Spec{Limits: sandbox.Limits{DiskBytes: 1 << 30}, Mounts: []sandbox.Mount{{Source: "/usr", Target: "/x"}}}}
	_, err := acme.Create(t.Context(), mount)
	wantClass(t, err, sandbox.Denied)
	reload := func(text string) {
		t.Helper()
		write(text)
		if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	reload(`{"default": {"policy": {"unbounded_memory": true, "unbounded_disk": true, "mounts": [{"source": "/usr"}]}}}`)
	if !eventually(func() bool { made, err := acme.Create(context.Background(), mount); return err == nil && made.ID != "" }) {
		t.Error("it is refused as before")
	}
	reload(`{"defautl": {}}`)
	if !eventually(func() bool { return strings.Contains(s.complain.String(), "defautl") }) {
		t.Errorf("the fault is not told: %s", s.complain)
	}
	if _, err := acme.Create(t.Context(), mount); err != nil {
		t.Errorf("after the fault it is refused: %v", err)
	}
}

func TestDaemonRefusesBadInput(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
		want int
	}{
		{[]string{"--listen", "0.0.0.0:0"}, "in the clear", 1},
		{[]string{"--insecure"}, "no address", 2},
		{[]string{"--tls-cert", "x", "--listen", "127.0.0.1:0"}, "--tls-key", 2},
		{[]string{"--tls-local"}, "--listen", 2},
		{[]string{"--driver", "celll"}, "did you mean cell?", 2},
		{[]string{"--config", "/no/such/file"}, "/no/such/file", 1},
		{[]string{"now"}, "takes none", 2},
	} {
		got := command(t, "", append([]string{"serve", "--state", t.TempDir()}, c.args...)...)
		if got.status != c.want || !strings.Contains(got.stderr, c.says) {
			t.Errorf("serve %q: %+v", c.args, got)
		}
	}
	got := command(t, "", "key", "create", "--tenant", "A B", "--state", t.TempDir())
	if got.status != 2 || !strings.Contains(got.stderr, "tenant") {
		t.Errorf("%+v", got)
	}
}

// TestDaemonTellsItsManager when it is ready.
func TestDaemonTellsItsManager(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", name)
	serve(t, t.TempDir())
	text := make([]byte, 100)
	n, err := conn.Read(text)
	if err != nil || string(text[:n]) != "READY=1" {
		t.Errorf("%q, %v", text[:n], err)
	}
}
