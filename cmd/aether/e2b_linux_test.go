package main

import (
	"bufio"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/network/networktest"
)

//go:embed testdata/e2b
var e2bClient embed.FS

// e2bBehaviours is how many the client tries: one that is missing is not taken for one that
// passes.
const e2bBehaviours = 135

// TestE2BClients has the official clients of E2B use a daemon: each behaviour is a test.
func TestE2BClients(t *testing.T) {
	setGateway(t)
	home := installE2B(t)
	state := t.TempDir()
	believed, socks := secretHost(t)
	t.Setenv("SSL_CERT_FILE", believed)
	s := serve(t, state)
	outside, err := net.Listen("tcp", net.JoinHostPort(networktest.HostAddress(t), "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { outside.Close() })
	host, port, _ := net.SplitHostPort(outside.Addr().String())
	url, files, want := "http://"+s.address, "life network inside ports code secrets scale", e2bBehaviours
	if os.Geteuid() == 0 {
		files, want = files+" volumes templates", want+1+28
	}
	key := newKey(t, state, "--tenant", "acme")
	if runtime.GOARCH == "amd64" {
		_, node := installMCPClients(t)
		t.Setenv("NEW_NODE", node)
	}
	results := runE2B(t, home, "FILES="+files, "E2B_API_URL="+url, "E2B_SANDBOX_URL="+url, "E2B_API_KEY="+key, "OUTSIDE="+host+"/"+port,
		"SOCKS="+socks, "OPERATOR_KEY="+newKey(t, state, "--operator"))
	if len(results) != want {
		t.Errorf("%d behaviours were tried, and there are %d", len(results), want)
	}
	for _, r := range results {
		t.Run(r.Name, func(t *testing.T) {
			if r.Error != "" {
				t.Error(r.Error)
			}
		})
	}
	runExample(t, home, "e2b/computesdk.mjs", []string{"node"}, "E2B_API_URL="+url, "E2B_SANDBOX_URL="+url, "E2B_API_KEY="+key)
	if status := s.stop(syscall.SIGTERM); status != 0 || strings.Contains(s.complain.String(), "panic") {
		t.Errorf("the daemon ends with %d: %s", status, s.complain)
	}
}

// setGateway has daemons of a test find the program that holds networks.
func setGateway(t *testing.T) {
	t.Helper()
	gateway, err := gateways()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("AETHER_NET", gateway)
}

// TestE2BDomain has the clients find a daemon and its sandboxes by a domain, over TLS.
func TestE2BDomain(t *testing.T) {
	setGateway(t)
	home := installE2B(t)
	state := t.TempDir()
	s := serve(t, state, "--domain", "aether.test", "--tls-local")
	_, port, _ := net.SplitHostPort(s.address)
	results := runE2B(t, home, "FILES=domain", "E2B_DOMAIN=aether.test:"+port, "E2B_API_KEY="+newKey(t, state, "--tenant", "acme"),
		"NODE_EXTRA_CA_CERTS="+filepath.Join(state, "authority.crt"))
	if len(results) != 2 {
		t.Errorf("%d behaviours were tried, and there are 2", len(results))
	}
	for _, r := range results {
		if r.Error != "" {
			t.Errorf("%s: %s", r.Name, r.Error)
		}
	}
}

// secretHost is a host that says which key came to it: in a file the certificate that it is
// believed by, and a proxy that reaches it under every name, as E2B's clients name proxies.
func secretHost(t *testing.T) (believed, socks string) {
	t.Helper()
	roots, proxy := networktest.Host(t, "api.example.com", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("X-Key")) })
	believed = filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(believed, roots, 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
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
			go passSOCKS(conn, strings.TrimPrefix(proxy, "http://"))
		}
	}()
	return believed, l.Addr().String()
}

// passSOCKS takes a SOCKS5 connection to any name to a proxy that asks for no more.
func passSOCKS(conn net.Conn, to string) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	head := make([]byte, 2)
	if _, err := io.ReadFull(in, head); err != nil {
		return
	}
	if _, err := in.Discard(int(head[1])); err != nil {
		return
	}
	fmt.Fprint(conn, "\x05\x00")
	asked := make([]byte, 5) // and a name with its length first, and a port
	if _, err := io.ReadFull(in, asked); err != nil || asked[3] != 3 {
		return
	}
	if _, err := in.Discard(int(asked[4]) + 2); err != nil {
		return
	}
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer out.Close()
	fmt.Fprint(out, "CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com\r\n\r\n")
	from := bufio.NewReader(out)
	if _, err := http.ReadResponse(from, &http.Request{Method: http.MethodConnect}); err != nil {
		return
	}
	fmt.Fprint(conn, "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
	go func() { _, _ = io.Copy(out, in); out.Close() }()
	_, _ = io.Copy(conn, from)
}

// behaviour is what a client found.
type behaviour struct {
	Name  string
	MS    int
	Error string
}

// runE2B runs the client and gives what it found.
func runE2B(t *testing.T, home string, env ...string) []behaviour {
	t.Helper()
	return runClient(t, home, []string{"node", "main.mjs"}, env...)
}

// runClient runs a program that prints a line for each behaviour.
func runClient(t *testing.T, home string, program []string, env ...string) (list []behaviour) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	client := exec.CommandContext(ctx, program[0], program[1:]...)
	client.Dir, client.Env = home, append(os.Environ(), env...)
	var complaints strings.Builder
	client.Stderr = &complaints
	out, err := client.Output()
	if err != nil {
		t.Errorf("the client: %v: %s", err, complaints.String())
	}
	for line := range strings.Lines(string(out)) {
		var b behaviour
		if err := json.Unmarshal([]byte(line), &b); err != nil {
			t.Errorf("the client says %q", line)
			continue
		}
		list = append(list, b)
	}
	return list
}

// runExample runs a program of the examples with the packages of a directory.
func runExample(t *testing.T, home, name string, program []string, env ...string) {
	t.Helper()
	text, err := os.ReadFile("../../examples/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, filepath.Base(name)), text, 0o644); err != nil {
		t.Fatal(err)
	}
	example := exec.CommandContext(t.Context(), program[0], append(program[1:], filepath.Base(name), "Say hello.")...)
	example.Dir, example.Env = home, append(os.Environ(), env...)
	if out, err := example.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "hello from 42" {
		t.Errorf("%s: %v: %s", name, err, out)
	}
}

// npmOffline is what npm says where no registry can be reached.
var npmOffline = regexp.MustCompile(`ENOTFOUND|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN|ENETUNREACH`)

// installE2B puts the client and exactly the packages of its lock file in a directory.
func installE2B(t *testing.T) string {
	t.Helper()
	needTools(t, "node", "npm", "python3", "git", "bash")
	home := filepath.Join(stateDir, "e2b-client") // once for all tests
	if _, err := os.Stat(filepath.Join(home, "node_modules", ".package-lock.json")); err == nil {
		return home
	}
	copyOut(t, e2bClient, "testdata/e2b", home)
	installNode(t, home)
	return home
}

// needTools skips a test on a host without some programs.
func needTools(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("this host has no %s: %v", name, err)
		}
	}
}

// copyOut writes files of a test to a directory.
func copyOut(t *testing.T, files embed.FS, from, to string) {
	t.Helper()
	below, err := fs.Sub(files, from)
	if err == nil {
		err = os.CopyFS(to, below)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// installNode installs what a directory's lock file names, or skips the test on a host that
// cannot.
func installNode(t *testing.T, home string) {
	t.Helper()
	npm := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	npm.Dir = home
	out, err := npm.CombinedOutput()
	if err != nil && npmOffline.Match(out) {
		t.Skipf("this host cannot reach a package registry: %s", out)
	}
	if err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
}
