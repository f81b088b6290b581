package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"aether/driver/docker/dockertest"
	"aether/driver/guestagent"
	"aether/driver/guestagent/guestagenttest"
	"aether/driver/gvisor"
	"aether/sandbox"
)

// insideBehaviours is how many are about what is inside of sandboxes.
const insideBehaviours = 32 + 17

// pausesMemory are those which Docker must refuse: it keeps no memory.
var pausesMemory = map[string]bool{"port: a stranger does not wake a sandbox, and others do": true, "port: of a paused sandbox": true}

// TestE2BDrivers has the clients use what is inside of sandboxes that are no cells: commands,
// streams, terminals, files, watches, signatures and ports.
func TestE2BDrivers(t *testing.T) {
	setGateway(t)
	if os.Getenv(guestagent.PathVariable) == "" {
		t.Setenv(guestagent.PathVariable, "") // for the time after the test
		if err := guestagenttest.Build(t.TempDir()); err != nil {
			t.Fatal(err)
		}
	}
	// What make systems has built.
	built, err := filepath.Abs("../../bin/runsc")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(built); err == nil && os.Getenv(gvisor.PathVariable) == "" {
		t.Setenv(gvisor.PathVariable, built)
	}
	home := installE2B(t)
	for _, driver := range []string{"gvisor", "docker"} {
		t.Run(driver, func(t *testing.T) {
			var flags []string
			if driver == "docker" {
				startDocker(t)
				// Few file systems let Docker bound a disk.
				flags = append(flags, "--config", tenantsFile(t, `{"unbounded_disk": true, "default_limits": {"memory_bytes": 536870912}}`))
			}
			wantUsable(t, driver)
			state := t.TempDir()
			s := serveOn(t, driver, state, flags...)
			url := "http://" + s.address
			results := runE2B(t, home, "FILES=inside ports", "E2B_API_URL="+url, "E2B_SANDBOX_URL="+url, "E2B_API_KEY="+newKey(t, state, "--tenant", "acme"))
			if len(results) != insideBehaviours {
				t.Errorf("%d behaviours were tried, and there are %d", len(results), insideBehaviours)
			}
			for _, r := range results {
				if driver == "docker" && pausesMemory[r.Name] {
					if !strings.Contains(r.Error, "501: fidelity: docker keeps the files of a sandbox, not its memory") {
						t.Errorf("%s is not refused: %q", r.Name, r.Error)
					}
				} else if r.Error != "" {
					t.Errorf("%s: %s", r.Name, r.Error)
				}
			}
		})
	}
}

// startDocker starts a daemon that ends with the test, or skips.
func startDocker(t *testing.T) {
	t.Helper()
	if reason := dockertest.Lacks(); reason != "" {
		t.Skip(reason)
	}
	runtime.LockOSThread() // with which the daemon dies
	dir, err := os.MkdirTemp("", "aether-e2b-docker-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket, stop, err := dockertest.Start(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	t.Setenv("DOCKER_HOST", "unix://"+socket)
}

// wantUsable skips where the host cannot run a system, with the reason. It gives the boundaries
// of all that the host can run.
func wantUsable(t *testing.T, system string) map[string]sandbox.Boundary {
	t.Helper()
	var list []struct {
		System, Reason string
		Boundary       sandbox.Boundary
		Usable         bool
	}
	got := command(t, "", "systems", "--json")
	// A probe may come too late while the host reads a system's program for the first time.
	for tries := 3; tries > 0 && strings.Contains(got.stdout, "its probe did not answer"); tries-- {
		got = command(t, "", "systems", "--json")
	}
	if err := json.Unmarshal([]byte(got.stdout), &list); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	here := make(map[string]sandbox.Boundary)
	for _, one := range list {
		if one.System == system && !one.Usable {
			t.Skipf("this host cannot run %s: %s", system, one.Reason)
		}
		if one.Usable {
			here[one.System] = one.Boundary
		}
	}
	return here
}
