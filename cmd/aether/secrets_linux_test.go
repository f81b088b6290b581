package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"aether/engine"
)

// TestSecretsByCommand: what is set, listed and removed, over a restart of the daemon, of
// which no core dump would be written.
func TestSecretsByCommand(t *testing.T) {
	const hush = "hush-91ac"
	state := t.TempDir()
	s := serve(t, state)
	t.Setenv("AETHER_URL", "unix://"+s.socket)
	wants := func(stdin, args, stdout string) {
		t.Helper()
		if got := command(t, stdin, strings.Fields(args)...); got.status != 0 || strings.TrimSpace(got.stdout) != stdout || got.stderr != "" {
			t.Errorf("%s: %+v", args, got)
		}
	}
	wants(hush+"\n", "secret set TOKEN --host api.example.com --host *.example.org", "")
	wants(hush+"2", "secret set other", "")
	wants(hush+"3", "secret set TOKEN", "")
	wants("", "secret list --quiet", "TOKEN\nother")
	var list []engine.Secret
	got := command(t, "", "secret", "list", "--json")
	if err := json.Unmarshal([]byte(got.stdout), &list); err != nil || len(list) != 2 || fmt.Sprint(list[0].Hosts) != "[*.example.org api.example.com]" {
		t.Errorf("%+v, %v", got, err)
	}
	if got := command(t, "", "secret", "list"); got.status != 0 || !strings.Contains(got.stdout, "*.example.org") || !strings.Contains(got.stdout, "any") {
		t.Errorf("%+v", got)
	}
	if got := command(t, "", "quota"); got.status != 0 || !strings.Contains(got.stdout, "2 of 100") {
		t.Errorf("%+v", got)
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", s.cmd.Process.Pid))
	if err != nil || !regexp.MustCompile(`Max core file size +[01] `).Match(limits) {
		t.Errorf("%v\n%s", err, limits)
	}
	for stdin, args := range map[string]string{"": "secret set A", "a\nb": "secret set A", "x": "secret set A --host *", strings.Repeat("x", 70_000): "secret set A"} {
		if got := command(t, stdin, strings.Fields(args)...); got.status != 2 || got.stdout != "" {
			t.Errorf("%s with %.10q: %+v", args, stdin, got)
		}
	}
	if got := command(t, "", "secret", "rm", "none"); got.status != 1 || !strings.Contains(got.stderr, "aether secret list") {
		t.Errorf("%+v", got)
	}
	s.stop(syscall.SIGTERM)
	s = serve(t, state)
	t.Setenv("AETHER_URL", "unix://"+s.socket)
	wants("", "secret list --quiet", "TOKEN\nother")
	wants("", "secret rm TOKEN other", "")
	wants("", "secret list --json", "[]")
	s.stop(syscall.SIGTERM)
	if strings.Contains(s.complain.String(), hush) {
		t.Errorf("the log says %s", s.complain)
	}
}
