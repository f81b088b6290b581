package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aether/rest"
)

// What the inspector ends with beside 0.
const inspectorToolFailed = 5

// TestMCPInspector has the protocol's inspector, by its command line, find no fault with what
// clients could trip over in the schemas, and use tools and resources: over the program's own
// streams and over HTTP, as a client of the newest revision and of those before it.
func TestMCPInspector(t *testing.T) {
	home, node := installMCPClients(t)
	self := aether(t).Path
	state := t.TempDir()
	d := serve(t, state)
	key, err := d.client().CreateKey(t.Context(), rest.KeyRequest{Tenant: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string][]string{
		"stdio": {self, "mcp", "--profile", "full", "-e", "AETHER_TEST_AS_MAIN=1", "-e", "AETHER_URL=unix://" + d.socket},
		"http":  {"http://" + d.address + "/mcp?profile=full", "--header", "Authorization: Bearer " + key.Secret},
	} {
		t.Run(name, func(t *testing.T) {
			era := map[string]string{"stdio": "modern", "http": "legacy"}[name]
			inspector{t, home, node, append(target, "--protocol-era", era)}.list()
			i := inspector{t, home, node, append(target, "--protocol-era", "modern")}
			if name == "http" {
				i.useDaemon()
			} else {
				i.useProgram()
			}
		})
	}
}

// inspector is one that is pointed at a server.
type inspector struct {
	t          *testing.T
	home, node string
	target     []string
}

func (i inspector) list() {
	var listed struct{ Tools []struct{ Name string } }
	i.ask(0, &listed, "--method", "tools/list", "--strict")
	if len(listed.Tools) != len(i.tools()) {
		i.t.Errorf("it lists %d tools", len(listed.Tools))
	}
}

// create makes a sandbox.
func (i inspector) create() (id string) {
	var made struct{ StructuredContent called }
	i.ask(0, &made, "--method", "tools/call", "--tool-name", "sandbox_create", "--tool-arg", "memory_mb=128")
	return made.StructuredContent.Sandbox
}

func runIn(id string) []string {
	return []string{"--method", "tools/call", "--tool-name", "command_run", "--tool-args-json", `{"sandbox":"` + id + `","command":"echo $((6*7))"}`}
}

// useDaemon uses a sandbox, which lasts longer than a client.
func (i inspector) useDaemon() {
	id := i.create()
	var ran struct{ StructuredContent called }
	if i.ask(0, &ran, runIn(id)...); ran.StructuredContent.Stdout.Text != "42\n" {
		i.t.Errorf("it ran as %+v", ran)
	}
	i.ask(0, &ran, "--method", "tools/call", "--tool-name", "sandbox_destroy", "--tool-arg", "sandbox="+id)
}

// useProgram finds that what was made has ended with the program, and is listed as such.
func (i inspector) useProgram() {
	id := i.create()
	var read struct {
		CacheScope string
		Contents   []struct{ Text string }
	}
	i.ask(0, &read, "--method", "resources/read", "--uri", "aether://sandboxes")
	if read.CacheScope != "private" || len(read.Contents) != 1 || !strings.Contains(read.Contents[0].Text, id) {
		i.t.Errorf("%s is not among %+v", id, read)
	}
	var ran struct {
		StructuredContent called
		IsError           bool
	}
	i.ask(inspectorToolFailed, &ran, runIn(id)...)
	if e := ran.StructuredContent.Error; !ran.IsError || e == nil || e.Class != "not_found" || e.Next == nil || e.Next.Tool != "sandbox_create" {
		i.t.Errorf("in what has ended it ran as %+v", ran)
	}
}

// tools are those of the whole profile, as the program prints them.
func (i inspector) tools() []any {
	out, err := aether(i.t, "tools").Output()
	if err != nil {
		i.t.Fatal(err)
	}
	var list struct{ Tools []any }
	if err := json.Unmarshal(out, &list); err != nil {
		i.t.Fatal(err)
	}
	return list.Tools
}

// ask has it do one thing, which must end with a status.
func (i inspector) ask(status int, to any, what ...string) {
	i.t.Helper()
	args := append([]string{filepath.Join(i.home, "node_modules/@modelcontextprotocol/inspector/clients/cli/build/index.js")}, i.target...)
	args = append(args, "--connect-timeout", fmt.Sprint(patience.Milliseconds()))
	cmd := exec.CommandContext(i.t.Context(), i.node, append(args, what...)...)
	cmd.Env = append(cmd.Environ(), "HOME="+i.home) // where it keeps what it remembers
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || cmd.ProcessState.ExitCode() != status {
		i.t.Fatalf("%v: %v\n%s%s", what, err, out.String(), complaints.String())
	}
	if err := json.Unmarshal(out.Bytes(), to); err != nil {
		i.t.Fatalf("%v: %v\n%s", what, err, out.String())
	}
}
