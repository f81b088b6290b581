package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// insideBehaviours is how many are about what is inside of sandboxes.
const insideBehaviours = 31 + 15

// TestE2BDrivers has the clients use what is inside of sandboxes that are no cells: commands,
// streams, terminals, files, watches, signatures and ports.
func TestE2BDrivers(t *testing.T) {
	gateway, err := gateways()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("AETHER_NET", gateway)
	for variable, name := range map[string]string{"AETHER_RUNSC": "runsc", "AETHER_GUEST": "aether-guest"} {
		built, err := filepath.Abs("../../bin/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(built); err == nil && os.Getenv(variable) == "" {
			t.Setenv(variable, built)
		}
	}
	home := installE2B(t)
	for _, driver := range []string{"gvisor", "docker"} {
		t.Run(driver, func(t *testing.T) {
			wantUsable(t, driver)
			state := t.TempDir()
			s := serveOn(t, driver, state)
			url := "http://" + s.address
			results := runE2B(t, home, "FILES=inside ports", "E2B_API_URL="+url, "E2B_SANDBOX_URL="+url, "E2B_API_KEY="+newKey(t, state, "--tenant", "acme"))
			if len(results) != insideBehaviours {
				t.Errorf("%d behaviours were tried, and there are %d", len(results), insideBehaviours)
			}
			for _, r := range results {
				if r.Error != "" {
					t.Errorf("%s: %s", r.Name, r.Error)
				}
			}
		})
	}
}

// wantUsable skips where the host cannot run a system, with the reason.
func wantUsable(t *testing.T, system string) {
	t.Helper()
	var list []struct {
		System, Reason string
		Usable         bool
	}
	got := command(t, "", "systems", "--json")
	if err := json.Unmarshal([]byte(got.stdout), &list); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	for _, one := range list {
		if one.System == system && !one.Usable {
			t.Skipf("this host cannot run %s: %s", system, one.Reason)
		}
	}
}
