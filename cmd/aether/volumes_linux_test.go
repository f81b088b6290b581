package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"aether/engine"
)

// TestVolumesByCommand: what is made, listed and removed, and what is refused.
func TestVolumesByCommand(t *testing.T) {
	s := serve(t, t.TempDir())
	t.Setenv("AETHER_URL", "unix://"+s.socket)
	want := func(args, stdout string) {
		t.Helper()
		if got := command(t, "", strings.Fields(args)...); got.status != 0 || strings.TrimSpace(got.stdout) != stdout {
			t.Errorf("%s: %+v", args, got)
		}
	}
	size := "--unbounded"
	if os.Geteuid() == 0 {
		size = "--size 32M"
	}
	want("volume create data "+size, "data")
	want("volume list --quiet", "data")
	if got := command(t, "", "volume", "list"); got.status != 0 || !strings.Contains(got.stdout, "data") || !strings.Contains(got.stdout, "size") {
		t.Errorf("%+v", got)
	}
	made := command(t, "", "create", "--volume", "data:/mnt", "--volume", "data:/ro:ro")
	id := strings.TrimSpace(made.stdout)
	if made.status != 0 || id == "" {
		t.Fatalf("%+v", made)
	}
	if got := say(t, s.client(), id, "echo x > /mnt/x; cat /ro/x; (echo y > /ro/x) 2>/dev/null || echo refused"); got != "x\nrefused" {
		t.Errorf("it says %q", got)
	}
	if got := command(t, "", "volume", "rm", "data"); got.status != 1 || !strings.Contains(got.stderr, id) {
		t.Errorf("%+v", got)
	}
	want("rm "+id, "")
	want("volume rm data", "")
	want("volume list --json", "[]")
	for _, args := range []string{"volume create data", "volume create data --size 1G --unbounded", "volume create data --size x", "volume create Data --size 1G", "volume rm", "volume nothing", "quota a b", "create --volume data"} {
		if got := command(t, "", strings.Fields(args)...); got.status != 2 || got.stdout != "" {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

// TestUpkeepByCommand: pruning, quotas and the doctor ask the daemon.
func TestUpkeepByCommand(t *testing.T) {
	s := serve(t, t.TempDir())
	t.Setenv("AETHER_URL", "unix://"+s.socket)
	var report engine.PruneReport
	got := command(t, "", "prune", "--dry-run", "--json")
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil || got.status != 0 || report.Removed == nil {
		t.Errorf("%+v, %v", got, err)
	}
	if got := command(t, "", "prune", "--dry-run"); got.status != 0 || !strings.Contains(got.stdout, "would remove") {
		t.Errorf("%+v", got)
	}
	if _, err := s.client().Create(t.Context(), engine.CreateRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := command(t, "", "quota"); got.status != 0 || !strings.Contains(got.stdout, "sandboxes") || strings.Count(got.stdout, "\n") != 2 {
		t.Errorf("%+v", got)
	}
	t.Setenv("AETHER_URL", "unix:///nowhere/at/all")
	if got := command(t, "", "prune"); got.status != 1 || !strings.Contains(got.stderr, "aether serve") {
		t.Errorf("%+v", got)
	}
}
