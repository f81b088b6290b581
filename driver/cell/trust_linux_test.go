package cell_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/network"
	"aether/network/list"
	"aether/network/networktest"
	"aether/sandbox"
)

// builtNetwork builds aether-net, or finds the one that was built for these tests.
func builtNetwork(t testing.TB) string {
	t.Helper()
	if path := os.Getenv(network.PathVariable); path != "" {
		return path
	}
	path := filepath.Join(scratch, "aether-net")
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, "aether/cmd/aether-net")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Chmod(scratch, 0o711); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	apiName  = "api.example.com"
	apiToken = "s3cr3t-value"
)

// api says which key came. It gives the certificate that it is believed by, and the address
// of a proxy that reaches it.
func api(t testing.TB) (roots []byte, proxy string) {
	t.Helper()
	return networktest.Host(t, apiName, func(w http.ResponseWriter, r *http.Request) {
		verdict := "wrong"
		if r.Header.Get("X-Api-Key") == apiToken {
			verdict = "right"
		}
		fmt.Fprintf(w, "%s %s with the %s key", r.Method, r.URL.Path, verdict)
	})
}

// requests are programs that reach the API with what they find in their environment.
var requests = map[string]string{
	"curl":    `curl -sS --max-time 120 -H 'X-Api-Key: mine' https://api.example.com/v1/x`,
	"python3": `/usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen(u.Request("https://api.example.com/v1/x", headers={"X-Api-Key": "mine"}), timeout=120).read().decode())'`,
	"node":    `node -e 'require("https").get("https://api.example.com/v1/x", {headers: {"X-Api-Key": "mine"}}, r => r.on("data", d => process.stdout.write(d))).on("error", e => { console.error(e); process.exit(1) })'`,
}

// TestInjectedHeader: programs in a cell reach a host by TLS that ends in the gateway, which
// they believe without being told, with a key that is nowhere inside.
func TestInjectedHeader(t *testing.T) {
	instance := newRuledCell(t)
	for program, request := range requests {
		t.Run(program, func(t *testing.T) {
			need(t, program)
			if said := sh(t, instance, request); said != rightKey {
				t.Errorf("%q", said)
			}
		})
	}
	need(t, "curl")
	if said := sh(t, instance, `curl -sS --max-time 120 -o /dev/null -w '%{http_code}' https://api.example.com/v2`); said != "403" {
		t.Errorf("another path: %q", said)
	}
	if said := sh(t, instance, `env; cat "$SSL_CERT_FILE" /proc/self/environ`); strings.Contains(said, apiToken) {
		t.Error("the key is inside")
	}
}

// TestTrustAfterRestart: the program of the gateways dies, and the cell believes the next
// one: at once, for that has the same key, and by a certificate of its own.
func TestTrustAfterRestart(t *testing.T) {
	instance := newRuledCell(t)
	need(t, "curl")
	if said := sh(t, instance, requests["curl"]); said != rightKey {
		t.Fatalf("%q", said)
	}
	before := sh(t, instance, "cat $SSL_CERT_FILE")
	for _, p := range descendants(t, os.Getpid()) {
		if p.Name == "aether-net" {
			gateways, err := os.FindProcess(p.PID)
			if err == nil {
				err = gateways.Kill()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	var said outcome
	if !eventually(20*time.Second, func() bool {
		said, _ = try(t.Context(), client(t, instance), shell(requests["curl"]))
		return strings.TrimSpace(said.stdout) == rightKey
	}) {
		t.Errorf("%+v", said)
	}
	if !eventually(20*time.Second, func() bool { return sh(t, instance, "cat $SSL_CERT_FILE") != before }) {
		t.Error("the next one's certificate has not come")
	}
}

const rightKey = "GET /v1/x with the right key"

// withToken gives the secret of the rule.
func withToken(ctx context.Context) context.Context {
	return sandbox.WithSecrets(ctx, func(name string) (string, []string, error) {
		if name != "TOKEN" {
			return "", nil, &sandbox.Error{Class: sandbox.NotFound}
		}
		return apiToken, []string{apiName}, nil
	})
}

// newRuledCell gives a cell that reaches the API, with a key by a rule.
func newRuledCell(t *testing.T) sandbox.Instance {
	t.Helper()
	t.Setenv(network.PathVariable, builtNetwork(t))
	roots, proxy := api(t)
	service := network.New(network.Options{Roots: roots})
	opts := optionsIn(filepath.Join(t.TempDir(), "run"), 0)
	opts.Network = service
	driver := cell.New(opts)
	t.Cleanup(func() {
		if err := driver.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := service.Close(); err != nil {
			t.Error(err)
		}
	})
	spec := sandbox.Spec{Network: sandbox.Network{Mode: sandbox.EgressNetwork, Allow: []string{apiName}, Proxy: proxy,
		HTTP: []sandbox.HTTPRule{{Host: apiName, Paths: []string{"/v1/*"}, Headers: map[string]string{"x-api-key": "${TOKEN}"}}}}}
	if _, err := driver.Create(t.Context(), spec); sandbox.ClassOf(err) != sandbox.Invalid {
		t.Errorf("without secrets: %v", err)
	}
	instance, err := driver.Create(withToken(t.Context()), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { destroy(t, instance) })
	return instance
}

// TestCredentialOfList: what a package manager of the host would show to its index is shown
// for the programs of a cell that may use the list, and is nowhere inside.
func TestCredentialOfList(t *testing.T) {
	need(t, "curl")
	const index = "index.invalid"
	t.Setenv(network.PathVariable, builtNetwork(t))
	roots, proxy := networktest.Host(t, index, func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		fmt.Fprintf(w, "%s by %q %v", r.Method, user, password == apiToken)
	})
	tools := t.TempDir()
	npm := "#!/bin/sh\necho '{\"registry\":\"https://me:" + apiToken + "@" + index + "/\"}'\n"
	if err := os.WriteFile(filepath.Join(tools, "npm"), []byte(npm), 0o755); err != nil {
		t.Fatal(err)
	}
	opts := optionsIn(filepath.Join(t.TempDir(), "run"), 0)
	t.Setenv("PATH", tools)
	t.Setenv("HOME", tools)
	service := network.New(network.Options{Roots: roots, Lists: network.Lists(list.Host{Dir: filepath.Join(tools, "lists")})})
	opts.Network = service
	driver := cell.New(opts)
	t.Cleanup(func() {
		if err := errors.Join(driver.Close(context.Background()), service.Close()); err != nil {
			t.Error(err)
		}
	})
	instance, err := driver.Create(t.Context(), sandbox.Spec{Network: sandbox.Network{Mode: sandbox.EgressNetwork, Allow: []string{list.NamePackages}, Proxy: proxy}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { destroy(t, instance) })
	for request, want := range map[string]string{"": `GET by "me" true`, "-X PUT": `PUT by "" false`} {
		if said := sh(t, instance, "curl -sS --max-time 120 "+request+" https://"+index+"/simple/"); said != want {
			t.Errorf("%q: %q", request, said)
		}
	}
	if said := sh(t, instance, `env; cat "$SSL_CERT_FILE" /proc/self/environ`); strings.Contains(said, apiToken) {
		t.Error("the credential is inside")
	}
}
