package battery_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aether/guest"
	"aether/sandbox"
)

// client is a program, what it says of the host that it may reach, and what it runs for
// another, which has to fail.
type client struct {
	name, program string
	run           string
	want          string
	refused       string
}

// clients are scripts of a shell. $ok is the host that is allowed, and $not one that is
// not; both have everything.
var clients = []client{
	{"curl", "curl", `curl -sS https://$ok/`, "this is files.example at 93.184.0.8", `curl -sS https://$not/`},
	{"curl without encryption", "curl", `curl -sS http://$ok/`, "this is files.example at 93.184.0.8", `curl -sSf -H "Host: $not" http://$ok/`},
	{"HTTP 2", "curl", `curl -sS -o /dev/null -w '%{http_version}' --http2 https://$ok/`, "2", `curl -sS --http2 https://$not/`},
	{"a long stream", "curl", `curl -sSN https://$ok/ticks | tail -1; curl -sSN http://$ok/ticks | tail -1`, "tick 19\ntick 19", `curl -sSN https://$not/ticks`},
	{"git", "git", `git clone -q https://$ok/git/demo.git /tmp/clone && cat /tmp/clone/file`, "hello", `git clone -q https://$not/git/demo.git /tmp/other`},
	{"pip", "pip", `pip install -q --target /tmp/python -i https://$ok/simple/ aetherdemo && PYTHONPATH=/tmp/python python3 -c 'import aetherdemo; print(aetherdemo.said)'`, "hello",
		`pip --retries 0 download -q -d /tmp/other -i https://$not/simple/ aetherdemo`},
	{"npm", "npm", `cd /tmp && npm install --fetch-retries=0 --silent --registry=https://$ok/npm/ aether-demo && ls node_modules`, "aether-demo",
		`cd /tmp && mkdir -p other && cd other && npm install --fetch-retries=0 --registry=https://$not/npm/ aether-demo`},
	{"apt", "apt-get", apt(`$ok`) + ` && cd /tmp && apt-get $options download aether-demo >&2 && ls *.deb`, "aether-demo_1.0_all.deb",
		apt(`$not`) + ` && apt-get $options download aether-demo`},
	{"node", "node", `node -e 'require("https").get("https://"+process.env.ok+"/", r => r.pipe(process.stdout))'`, "this is files.example at 93.184.0.8",
		`node -e 'require("https").get("https://"+process.env.not+"/", r => r.pipe(process.stdout))'`},
	{"python", "python3", `python3 -c 'import os, urllib.request as u; print(u.urlopen("https://"+os.environ["ok"]+"/").read().decode())'`, "this is files.example at 93.184.0.8",
		`python3 -c 'import os, urllib.request as u; print(u.urlopen("https://"+os.environ["not"]+"/").read())'`},
	{"Go", "sh", inside + `/attacker tls $ok:443 $ok $ok "this is" | grep -o 'this is .*'`, "this is files.example at 93.184.0.8", inside + `/attacker tls $not:443 $not $not "this is" | grep reached`},
	{"WebSocket", "sh", inside + `/attacker websocket ws://$ok/echo; ` + inside + `/attacker websocket wss://$ok/echo`, "reached: message 9\nreached: message 9",
		inside + `/attacker websocket wss://$not/echo | grep reached`},
	{"psql", "psql", `psql -h database.example -U postgres -Atc "select 'hello'"`, "hello", `psql -h $not -U postgres -Atc "select 'hello'"`},
}

// apt is an update from a repository that is nobody's but the test's.
func apt(host string) string {
	return `d=$(mktemp -d) && mkdir -p $d/lists/partial $d/archives/partial && echo "deb [trusted=yes] http://` + host + `/apt ./" > $d/list &&
options="-o Dir::Etc::SourceList=$d/list -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists=$d/lists -o Dir::Cache=$d -o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::Retries=0 -o Debug::NoLocking=1" &&
apt-get $options -o APT::Update::Error-Mode=any update >&2`
}

// soon is less than any of them waits for a host that does not answer, and more than it takes
// them to start on a busy one.
const soon = 100 * time.Second

// TestClients: programs that people use go on in a cell, with the hosts that they may
// reach, and fail with others, soon.
func TestClients(t *testing.T) {
	l := newLot(t)
	database(t)
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "ca.pem"), l.authority, 0o644), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	b := l.cell(t, reaching(filesHost, "database.example:5432"), sandbox.Mount{Source: dir, Target: "/mnt/world"})
	const ca = "/mnt/world/ca.pem"
	trust := map[string]string{"CURL_CA_BUNDLE": ca, "GIT_SSL_CAINFO": ca, "SSL_CERT_FILE": ca, "PIP_CERT": ca, "NODE_EXTRA_CA_CERTS": ca, "npm_config_cafile": ca}
	for i, c := range clients {
		other := fmt.Sprintf("client%d.evil.example", i)
		t.Run(c.name, func(t *testing.T) {
			b.works(t, c, trust)
			began := time.Now()
			if code, said := b.shell(t, trust, other, c.refused); code == 0 || !b.denied(t, other) {
				t.Errorf("another host: status %d, %q, %s", code, said.stdout, said.stderr)
			}
			if took := time.Since(began); took > soon {
				t.Errorf("to be refused took %v", took)
			}
		})
	}
}

// TestClientsOfRules: they go on as well where TLS ends in the gateway, which they believe
// without being told to.
func TestClientsOfRules(t *testing.T) {
	l := newLot(t)
	n := reaching(filesHost)
	n.HTTP = []sandbox.HTTPRule{{Host: filesHost, Methods: []string{"GET", "POST"}}}
	b := l.cell(t, n)
	for _, c := range clients {
		if c.name != "psql" {
			t.Run(c.name, func(t *testing.T) { b.works(t, c, nil) })
		}
	}
	if missing("curl") == "" {
		if code, said := b.shell(t, nil, "", `curl -sS -X DELETE https://$ok/`); code != 0 || !strings.HasPrefix(said.stdout, "aether: ") {
			t.Errorf("a method that no rule allows: %d, %q, %s", code, said.stdout, said.stderr)
		}
	}
}

// works wants a program to do what it does, or says that this host has not got it.
func (b *box) works(t *testing.T, c client, env map[string]string) {
	t.Helper()
	if missing := missing(c.program); missing != "" {
		t.Skip(missing)
	}
	if code, said := b.shell(t, env, "", c.run); code != 0 || !strings.HasPrefix(strings.TrimSpace(said.stdout), c.want) {
		t.Errorf("status %d, %q, %s", code, said.stdout, said.stderr)
	}
}

// missing says which program this host, whose programs the cell has, has not got.
func missing(program string) string {
	for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/bin"} {
		if _, err := os.Stat(filepath.Join(dir, program)); err == nil {
			if program == "psql" {
				return noDatabase()
			}
			return ""
		}
	}
	return "this host has no " + program
}

// denied says whether the gateway has denied something for a name: a program can fail for
// other reasons.
func (b *box) denied(t *testing.T, name string) bool {
	t.Helper()
	list, _, err := b.Instance.(sandbox.NetworkLog).NetworkDecisions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(list, func(d sandbox.NetworkDecision) bool {
		return d.Verdict == sandbox.VerdictDenied && (d.Name == name || strings.Contains(d.Reason, name))
	})
}

type output struct{ stdout, stderr string }

// shell runs a script as an ordinary program of the cell.
func (b *box) shell(t *testing.T, more map[string]string, other, script string) (code int, said output) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), attackTime)
	defer cancel()
	client := guest.NewClient(b.Instance.Dial, guest.ClientOptions{})
	defer client.Close()
	var stdout, stderr strings.Builder
	env := map[string]string{"ok": filesHost, "not": other, "HOME": "/tmp", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_BREAK_SYSTEM_PACKAGES": "1",
		"npm_config_audit": "false", "npm_config_fund": "false", "npm_config_update_notifier": "false", "PGCONNECT_TIMEOUT": "60"}
	maps.Copy(env, more)
	p, err := client.Start(ctx, guest.Cmd{Path: "sh", Args: []string{"-c", script}, Env: env, Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		t.Fatal(err)
	}
	status, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return int(status.Code), output{stdout.String(), stderr.String()}
}
