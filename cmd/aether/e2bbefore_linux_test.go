package main

import (
	"os"
	"path/filepath"
	"testing"
)

// common is what both clients can, by the names of behaviours; and commonBehaviours is how
// many those are.
const (
	common           = "^(create: |connect: |info: |kill: |timeout: |list: |pause: |fork: |snapshot: |run: |background: |stdin: |files: )"
	commonBehaviours = 58
)

// TestE2BClientBefore has the last client of E2B that creates and connects without the
// second version of the routes use a daemon: what it can is as with the newest.
func TestE2BClientBefore(t *testing.T) {
	setGateway(t)
	home := beforeV2(t, installE2B(t))
	state := t.TempDir()
	s := serve(t, state)
	url := "http://" + s.address
	results := runE2B(t, home, "FILES=life inside", "ONLY="+common, "E2B_API_URL="+url, "E2B_SANDBOX_URL="+url, "E2B_API_KEY="+newKey(t, state, "--tenant", "acme"))
	if len(results) != commonBehaviours {
		t.Errorf("%d behaviours were tried, and there are %d", len(results), commonBehaviours)
	}
	for _, r := range results {
		if r.Error != "" {
			t.Errorf("%s: %s", r.Name, r.Error)
		}
	}
}

// beforeV2 is a directory with the behaviours, in which the name of the client is that of
// the one before.
func beforeV2(t *testing.T, installed string) (home string) {
	t.Helper()
	home = filepath.Join(t.TempDir(), "before")
	copyOut(t, e2bClient, "testdata/e2b", home)
	for name, to := range map[string]string{"e2b": "e2b-before", "undici": "undici"} {
		link := filepath.Join(home, "node_modules", name)
		err := os.MkdirAll(filepath.Dir(link), 0o755)
		if err == nil {
			err = os.Symlink(filepath.Join(installed, "node_modules", to), link)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return home
}
