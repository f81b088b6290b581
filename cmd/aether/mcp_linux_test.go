package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aether/engine"
	"aether/rest"
)

// revisions are those of the protocol whose clients are tried: the newest, which has no
// sessions, the one before, and the oldest that there are clients of.
var revisions = []string{"2026-07-28", "2025-11-25", "2024-11-05"}

// speak connects a client of the official library.
func speak(t *testing.T, over mcp.Transport, revision string) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), over, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// overStreams speaks with a program over its own streams. When these are closed, it removes
// what it has made, and is not told to hurry meanwhile.
func overStreams(cmd *exec.Cmd) mcp.Transport {
	return &mcp.CommandTransport{Command: cmd, TerminateDuration: patience}
}

// called is what a tool answers: any of its fields, or an error.
type called struct {
	Sandbox   string
	Snapshot  string
	State     string
	Process   int
	Expires   time.Time
	URL       string
	Method    string
	IdleS     int  `json:"idle_s"`
	ExitCode  *int `json:"exit_code"`
	Value     string
	Stdout    struct{ Text string }
	Stderr    struct{ Text string }
	Text      string
	Files     []struct{ Path string }
	Sandboxes []struct{ Sandbox, Parent string }
	Error     *struct {
		Class, Field, Reason, Remedy string
		Retry                        bool
		Next                         *struct {
			Tool      string
			Arguments map[string]any
		}
	}
}

// call calls a tool. Its answer is the same as structure and as text.
func call(t *testing.T, s *mcp.ClientSession, name string, arguments map[string]any) (answer called) {
	t.Helper()
	result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	text := result.Content[0].(*mcp.TextContent).Text
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("%s: %s: %v", name, text, err)
	}
	if structure, err := json.Marshal(result.StructuredContent); err != nil || !sameJSON(t, string(structure), text) {
		t.Errorf("%s is told as %s and as %s, %v", name, structure, text, err)
	}
	if result.IsError != (answer.Error != nil) {
		t.Errorf("%s is an error %v: %s", name, result.IsError, text)
	}
	return answer
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	plain := func(text string) string {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(again)
	}
	return plain(a) == plain(b)
}

// must is call of a tool that must do it.
func must(t *testing.T, s *mcp.ClientSession, name string, arguments map[string]any) called {
	t.Helper()
	answer := call(t, s, name, arguments)
	if answer.Error != nil {
		t.Fatalf("%s: %+v", name, *answer.Error)
	}
	return answer
}

// work is what an agent does: it makes a sandbox, writes a program that fails, looks why
// by what the answer says, mends it, branches, goes back and cleans up. It gives the first
// sandbox, which is left.
func work(t *testing.T, s *mcp.ClientSession) string {
	t.Helper()
	id := must(t, s, "sandbox_create", nil).Sandbox
	in := func(more map[string]any) map[string]any {
		a := map[string]any{"sandbox": id}
		for k, v := range more {
			a[k] = v
		}
		return a
	}
	must(t, s, "file_write", in(map[string]any{"path": "/tmp/app/main.sh", "content": "cat /tmp/app/inputt\n"}))
	must(t, s, "file_write", in(map[string]any{"path": "/tmp/app/input", "content": "right\n"}))
	if ran := must(t, s, "command_run", in(map[string]any{"command": "sh /tmp/app/main.sh"})); *ran.ExitCode == 0 || !strings.Contains(ran.Stderr.Text, "inputt") {
		t.Errorf("the program ran as %+v", ran)
	}
	missing := call(t, s, "file_read", in(map[string]any{"path": "/tmp/app/inputt"}))
	if missing.Error == nil || missing.Error.Class != "not_found" || missing.Error.Retry || missing.Error.Next == nil {
		t.Fatalf("a file that is not there reads as %+v", missing)
	}
	listed := must(t, s, missing.Error.Next.Tool, missing.Error.Next.Arguments)
	if len(listed.Files) != 2 {
		t.Errorf("what the failure said to do gives %+v", listed)
	}
	must(t, s, "file_edit", in(map[string]any{"path": "/tmp/app/main.sh", "old": "inputt", "new": "input"}))
	if ran := must(t, s, "command_run", in(map[string]any{"command": "sh /tmp/app/main.sh"})); *ran.ExitCode != 0 || ran.Stdout.Text != "right\n" {
		t.Errorf("the program ran as %+v", ran)
	}
	server := must(t, s, "command_start", in(map[string]any{"command": "echo up; exec sleep 600"}))
	if again := must(t, s, "command_output", in(map[string]any{"process": server.Process})); again.ExitCode != nil {
		t.Errorf("the server is %+v", again)
	}
	resources(t, s, id)
	if runtime.GOARCH == "amd64" {
		branch(t, s, id)
	}
	return id
}

// resources reads what there is of a sandbox by URI.
func resources(t *testing.T, s *mcp.ClientSession, id string) {
	t.Helper()
	for uri, has := range map[string]string{
		"aether://sandboxes": id, "aether://sandboxes/" + id + "/files/tmp/app/input": "right\n",
		"aether://sandboxes/" + id + "/logs": "sleep 600", "aether://sandboxes/" + id + "/tree": `"running"`,
	} {
		found, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err != nil || len(found.Contents) != 1 || !strings.Contains(found.Contents[0].Text, has) {
			t.Errorf("%s gives %+v, %v", uri, found, err)
		}
	}
	for _, uri := range []string{"aether://sandboxes/7k2m9x0r4c8v1b5n3q6w/tree", "aether://sandboxes/" + id + "/files/nowhere", "aether://elsewhere"} {
		if found, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s gives %+v", uri, found)
		}
	}
}

// branch forks a sandbox, goes back to a snapshot of it and cleans up.
func branch(t *testing.T, s *mcp.ClientSession, id string) {
	t.Helper()
	in := map[string]any{"sandbox": id}
	shot := must(t, s, "snapshot_create", in)
	children := must(t, s, "sandbox_fork", map[string]any{"sandbox": id, "count": 2}).Sandboxes
	if len(children) != 2 || children[0].Parent != id {
		t.Fatalf("the children are %+v", children)
	}
	must(t, s, "file_remove", map[string]any{"sandbox": children[0].Sandbox, "path": "/tmp/app"})
	if ran := must(t, s, "command_run", map[string]any{"sandbox": children[1].Sandbox, "command": "sh /tmp/app/main.sh"}); ran.Stdout.Text != "right\n" {
		t.Errorf("the other child says %+v", ran)
	}
	for _, child := range children {
		must(t, s, "sandbox_destroy", map[string]any{"sandbox": child.Sandbox})
	}
	must(t, s, "file_write", map[string]any{"sandbox": id, "path": "/tmp/app/input", "content": "wrong\n"})
	must(t, s, "sandbox_rollback", map[string]any{"sandbox": id, "snapshot": shot.Snapshot})
	if part := must(t, s, "file_read", map[string]any{"sandbox": id, "path": "/tmp/app/input"}); part.Text != "right\n" {
		t.Errorf("after the roll back the file has %q", part.Text)
	}
	must(t, s, "snapshot_delete", map[string]any{"snapshot": shot.Snapshot})
}

// TestMCPOverStdio: an agent works with the program itself as its server, by an engine of
// the program's own or by a daemon; what it made without keep is gone when it has gone.
func TestMCPOverStdio(t *testing.T) {
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			cmd := aether(t, "mcp", "--profile", "full")
			cmd.Stderr = os.Stderr
			s := speak(t, overStreams(cmd), revision)
			id := work(t, s)
			if refused := call(t, s, "sandbox_create", map[string]any{"keep": true}); refused.Error == nil || refused.Error.Class != "unsupported" {
				t.Errorf("what ends with the program is kept: %+v", refused)
			}
			if err := s.Close(); err != nil {
				t.Errorf("the program ended with %v", err)
			}
			if found, err := os.ReadDir(filepath.Join(stateDir, "mcp")); err != nil || len(found) > 0 {
				t.Errorf("of %s there is left %v, %v", id, found, err)
			}
		})
	}
	t.Run("daemon", func(t *testing.T) {
		d := serve(t, t.TempDir())
		dir := t.TempDir()
		cmd := aether(t, "mcp", "--profile", "full", "--files", dir)
		cmd.Env = append(cmd.Env, "AETHER_URL=unix://"+d.socket)
		s := speak(t, overStreams(cmd), revisions[0])
		id := work(t, s)
		must(t, s, "file_download", map[string]any{"sandbox": id, "path": "/tmp/app/input", "to": "input"})
		if text, err := os.ReadFile(filepath.Join(dir, "input")); err != nil || string(text) != "right\n" {
			t.Errorf("the shared directory was given %q, %v", text, err)
		}
		kept := must(t, s, "sandbox_create", map[string]any{"keep": true}).Sandbox
		c := d.client()
		if err := s.Close(); err != nil {
			t.Errorf("the program ended with %v", err)
		}
		for id, want := range map[string]engine.State{id: engine.Ended, kept: engine.Running} {
			if found, err := c.Get(t.Context(), id); err != nil || found.State != want {
				t.Errorf("%s is %s, %v; not %s", id, found.State, err, want)
			}
		}
	})
}

// TestCompactIsTheDefault: agents are shown the dozen unless they ask for all.
func TestCompactIsTheDefault(t *testing.T) {
	for count, args := range map[int][]string{12: {"mcp"}, 44: {"mcp", "--profile", "full"}} {
		s := speak(t, overStreams(aether(t, args...)), "")
		list, err := s.ListTools(t.Context(), nil)
		if err != nil || len(list.Tools) != count {
			t.Fatalf("%v has %d tools, %v", args, len(list.Tools), err)
		}
		for _, one := range list.Tools {
			if one.Annotations == nil || one.OutputSchema == nil || one.Annotations.ReadOnlyHint && *one.Annotations.DestructiveHint {
				t.Errorf("%s does not say what it does: %+v", one.Name, one)
			}
		}
		if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "nothing"}); err == nil {
			t.Error("there is a tool that is not")
		}
	}
}

// keyed sends a key with every request.
type keyed struct{ key string }

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+k.key)
	return http.DefaultTransport.RoundTrip(r)
}

// TestMCPOverHTTP: agents work with a daemon over HTTP by keys, each with what is its
// tenant's; their sandboxes end when they are idle, quotas hold, and the audit trail has
// every call.
func TestMCPOverHTTP(t *testing.T) {
	state := t.TempDir()
	config := filepath.Join(state, "config.json")
	if err := os.WriteFile(config, []byte(`{"default": {"policy": {"unbounded_memory": true, "unbounded_disk": true}, "quota": {"sandboxes": 4}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	d := serve(t, state, "--config", config)
	c := d.client()
	over := func(tenant, query string) mcp.Transport {
		made, err := c.CreateKey(t.Context(), rest.KeyRequest{Tenant: tenant})
		if err != nil {
			t.Fatal(err)
		}
		return &mcp.StreamableClientTransport{Endpoint: "http://" + d.address + "/mcp" + query, HTTPClient: &http.Client{Transport: keyed{made.Secret}}}
	}
	var last string
	for _, revision := range revisions {
		s := speak(t, over("alice", "?profile=full"), revision)
		id := work(t, s)
		found := must(t, s, "sandbox_get", map[string]any{"sandbox": id})
		if left := time.Until(found.Expires); found.IdleS != 600 || left > 10*time.Minute || left < 5*time.Minute {
			t.Errorf("it is idle for %d s and ends in %v", found.IdleS, left)
		}
		if refused := call(t, s, "port_expose", map[string]any{"sandbox": id, "port": 80}); refused.Error == nil || refused.Error.Class != "unsupported" {
			t.Errorf("a server opens a port: %+v", refused)
		}
		if last != "" {
			must(t, s, "sandbox_destroy", map[string]any{"sandbox": last})
		} else {
			carryByURL(t, s, id)
		}
		last = id
	}
	other := speak(t, over("bob", ""), "")
	if list, err := other.ListTools(t.Context(), nil); err != nil || len(list.Tools) != 12 {
		t.Errorf("there are %v tools, %v", list, err)
	}
	all := speak(t, over("bob", "?profile=full"), "")
	if refused := call(t, all, "file_download", map[string]any{"sandbox": last, "path": "/etc/passwd"}); refused.Error == nil || refused.Error.Class != "not_found" {
		t.Errorf("another tenant's file: %+v", refused)
	}
	if refused := call(t, other, "command_run", map[string]any{"sandbox": last, "command": "true"}); refused.Error == nil || refused.Error.Class != "not_found" {
		t.Errorf("another tenant's sandbox: %+v", refused)
	}
	var ids []string
	for range 4 {
		ids = append(ids, must(t, other, "sandbox_create", nil).Sandbox)
	}
	if refused := call(t, other, "sandbox_create", nil); refused.Error == nil || refused.Error.Class != "exhausted" {
		t.Errorf("beyond the quota: %+v", refused)
	}
	for _, id := range ids {
		must(t, other, "sandbox_destroy", map[string]any{"sandbox": id})
	}
	for _, has := range []string{`"mcp.sandbox_create"`, `"mcp.command_run"`, last} {
		if !eventually(func() bool { return strings.Contains(auditTrail(t, c), has) }) { // it is written when the answer has gone
			t.Errorf("the audit trail has no %s: %.2000s", has, auditTrail(t, c))
		}
	}
	refuseMessages(t, d.address)
}

// auditTrail is the whole trail as text.
func auditTrail(t *testing.T, c *rest.Client) (trail string) {
	t.Helper()
	for after := ""; ; {
		page, err := c.Audit(t.Context(), after, 100)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(page.Entries)
		if err != nil {
			t.Fatal(err)
		}
		trail += string(text)
		if after = page.Next; after == "" || len(page.Entries) < 100 {
			return trail
		}
	}
}

// carryByURL brings a file into a sandbox and takes it out again by URLs, whose holder has no
// key; a file of the daemon's host is not to be had, and a URL is for one file and one purpose.
func carryByURL(t *testing.T, s *mcp.ClientSession, id string) {
	t.Helper()
	send := func(method, url, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/octet-stream")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	at := map[string]any{"sandbox": id, "path": "/tmp/carried"}
	up, down := must(t, s, "file_upload", at), must(t, s, "file_download", at)
	if left := time.Until(up.Expires); up.Method != "POST" || down.Method != "GET" || left < 0 || left > 10*time.Minute {
		t.Fatalf("it is carried by %+v and %+v", up, down)
	}
	body := strings.Repeat("carried\n", 1<<20) // more than a message may have
	if status, text := send(up.Method, up.URL, body); status != http.StatusOK {
		t.Fatalf("the upload is answered %d %s", status, text)
	}
	if ran := must(t, s, "command_run", map[string]any{"sandbox": id, "command": "wc -c < /tmp/carried"}); strings.TrimSpace(ran.Stdout.Text) != strconv.Itoa(len(body)) {
		t.Errorf("there came %s", ran.Stdout.Text)
	}
	if status, text := send(down.Method, down.URL, ""); status != http.StatusOK || text != body {
		t.Errorf("the download is answered %d with %d bytes", status, len(text))
	}
	for name, wrong := range map[string]string{"another file": strings.Replace(down.URL, "carried", "app", 1), "another purpose": up.URL, "no signature": strings.Replace(down.URL, "signature=v1_", "signature=v1_x", 1)} {
		if status, _ := send(http.MethodGet, wrong, ""); status != http.StatusUnauthorized {
			t.Errorf("%s is answered %d", name, status)
		}
	}
	at["from"] = "/etc/hostname"
	if refused := call(t, s, "file_upload", at); refused.Error == nil || refused.Error.Class != "unsupported" {
		t.Errorf("a file of the host: %+v", refused)
	}
}

// refuseMessages sends what is no message of anybody's.
func refuseMessages(t *testing.T, address string) {
	t.Helper()
	send := func(method, key, body string) int {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, method, "http://"+address+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if key != "" {
			req.Header.Set("X-API-Key", key)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for name, c := range map[string]struct {
		got, want int
	}{
		"no key":    {send("POST", "", list), 401},
		"wrong key": {send("POST", "aeth_wrong", list), 401},
		"GET":       {send("GET", "", ""), 401},
	} {
		if c.got != c.want {
			t.Errorf("%s is answered %d, not %d", name, c.got, c.want)
		}
	}
}
