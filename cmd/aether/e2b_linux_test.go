package main

import (
	"context"
	"embed"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
const e2bBehaviours = 120

// TestE2BClients has the official clients of E2B use a daemon: each behaviour is a test.
func TestE2BClients(t *testing.T) {
	gateway, err := gateways()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("AETHER_NET", gateway)
	home := installE2B(t)
	state := t.TempDir()
	s := serve(t, state)
	outside, err := net.Listen("tcp", net.JoinHostPort(networktest.HostAddress(t), "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { outside.Close() })
	host, port, _ := net.SplitHostPort(outside.Addr().String())
	url, files, want := "http://"+s.address, "life network inside ports code", e2bBehaviours
	if os.Geteuid() == 0 {
		files, want = files+" volumes templates", want+1+26
	}
	results := runE2B(t, home, "FILES="+files, "E2B_API_URL="+url, "E2B_SANDBOX_URL="+url, "E2B_API_KEY="+newKey(t, state, "--tenant", "acme"), "OUTSIDE="+host+"/"+port)
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
	if status := s.stop(syscall.SIGTERM); status != 0 || strings.Contains(s.complain.String(), "panic") {
		t.Errorf("the daemon ends with %d: %s", status, s.complain)
	}
}

// TestE2BDomain has the clients find a daemon and its sandboxes by a domain, over TLS.
func TestE2BDomain(t *testing.T) {
	gateway, err := gateways()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("AETHER_NET", gateway)
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

// behaviour is what a client found.
type behaviour struct {
	Name  string
	MS    int
	Error string
}

// runE2B runs the client and gives what it found.
func runE2B(t *testing.T, home string, env ...string) (list []behaviour) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	client := exec.CommandContext(ctx, "node", "main.mjs")
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

// npmOffline is what npm says where no registry can be reached.
var npmOffline = regexp.MustCompile(`ENOTFOUND|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN|ENETUNREACH`)

// installE2B puts the client and exactly the packages of its lock file in a directory.
func installE2B(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"node", "npm", "python3", "git", "bash"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("this host has no %s: %v", tool, err)
		}
	}
	home := filepath.Join(stateDir, "e2b-client") // once for all tests
	if _, err := os.Stat(filepath.Join(home, "node_modules", ".package-lock.json")); err == nil {
		return home
	}
	if err := os.MkdirAll(home, 0o755); err != nil {
		t.Fatal(err)
	}
	files, err := e2bClient.ReadDir("testdata/e2b")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := e2bClient.ReadFile("testdata/e2b/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, file.Name()), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	npm := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = home
	out, err := npm.CombinedOutput()
	if err != nil && npmOffline.Match(out) {
		t.Skipf("this host cannot reach a package registry: %s", out)
	}
	if err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	return home
}
