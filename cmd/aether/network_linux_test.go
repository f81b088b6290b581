package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"aether/network/networktest"
)

// gateways is the program of the gateways, built once.
var gateways = sync.OnceValues(func() (string, error) {
	err := errors.Join(os.MkdirAll(stateDir, 0o700), networktest.Build(stateDir))
	return os.Getenv("AETHER_NET"), err
})

// runOnNetwork runs on a host whose one package manager uses a registry.
func runOnNetwork(t *testing.T, registry string, args ...string) outcome {
	t.Helper()
	program, err := gateways()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	npm := "#!/bin/sh\necho '{\"registry\":\"" + registry + "\"}'\n"
	if err := os.WriteFile(filepath.Join(home, "npm"), []byte(npm), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := aether(t, append([]string{"run"}, args...)...)
	cmd.Env = append(cmd.Env, "AETHER_NET="+program, "PATH="+home, "HOME="+home, "AETHER_LISTS="+home)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// fetching is a command that asks a server for something.
func fetching(server string) []string {
	host, port, _ := net.SplitHostPort(server)
	return []string{"--", "bash", "-c", fmt.Sprintf(`exec 3<>/dev/tcp/%s/%s && printf 'GET / HTTP/1.0\r\nHost: %s\r\n\r\n' >&3 && cat <&3`, host, port, server)}
}

// TestAllowPackages has a command reach what a package manager of this host uses, which is
// at an address that is not public, and nothing else.
func TestAllowPackages(t *testing.T) {
	listener, err := net.Listen("tcp", net.JoinHostPort(networktest.HostAddress(t), "0"))
	if err != nil {
		t.Fatal(err)
	}
	registry := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a package") }))
	registry.Listener.Close()
	registry.Listener = listener
	registry.Start()
	t.Cleanup(registry.Close)
	server := listener.Addr().String()
	if got := runOnNetwork(t, registry.URL, append([]string{"--allow", "packages"}, fetching(server)...)...); got.status != 0 || !strings.Contains(got.stdout, "a package") {
		t.Errorf("by the list: %+v", got)
	}
	if got := runOnNetwork(t, registry.URL, append([]string{"--net", "egress"}, fetching(server)...)...); got.status == 0 || strings.Contains(got.stdout, "a package") {
		t.Errorf("without it: %+v", got)
	}
	got := runOnNetwork(t, registry.URL, append([]string{"--net", "ask"}, fetching(server)...)...)
	denied := regexp.MustCompile(`(?m)\b[1-9]\d*× ` + regexp.QuoteMeta(server) + `: no rule allows it`) // more than once if the command's kernel asks again before it is told
	if want := "--allow " + server; got.status == 0 || !denied.MatchString(got.stderr) || !strings.HasSuffix(got.stderr, "this would allow it: "+want+"\n") {
		t.Errorf("asked: %+v", got)
	}
	if got := runOnNetwork(t, registry.URL, append([]string{"--net", "ask", "--allow", server}, fetching(server)...)...); got.status != 0 || !strings.HasSuffix(got.stderr, "aether: the network denied nothing\n") {
		t.Errorf("as it was told: %+v", got)
	}
}

// TestNetAsk has names be asked for that nobody allows: the command's status stays its own.
func TestNetAsk(t *testing.T) {
	script := "getent hosts one.example; getent hosts two.example; getent hosts one.example; exit 7"
	got := runOnNetwork(t, "file:/x", "--net", "ask", "--deny", "two.example", "--", "bash", "-c", script)
	lines := strings.Split(strings.TrimSpace(got.stderr), "\n")
	last := lines[len(lines)-1]
	if got.status != 7 || last != "aether: this would allow it: --allow one.example" || !slices.ContainsFunc(lines, func(l string) bool { return strings.HasSuffix(l, "two.example: a rule denies it: two.example") }) {
		t.Errorf("%+v", got)
	}
}

func TestUnknownListIsRefused(t *testing.T) {
	got := runOnNetwork(t, "file:/x", "--allow", "pakages", "--", "true")
	if got.status != 2 || !strings.Contains(got.stderr, `--allow: no list is called "pakages"`) || !strings.Contains(got.stderr, "aether net lists") {
		t.Errorf("%+v", got)
	}
}
