package cell_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aether/sandbox"
)

// refusal is a Spec that must not become a cell.
type refusal struct {
	name  string
	spec  sandbox.Spec
	class sandbox.Class
	field string
}

func refusals(t *testing.T) []refusal {
	t.Helper()
	mount := func(source, target string) sandbox.Spec {
		return sandbox.Spec{Mounts: []sandbox.Mount{{Source: source, Target: target}}}
	}
	return []refusal{
		{"bad id", sandbox.Spec{ID: "../x"}, sandbox.Invalid, "id"},
		{"no such boundary", sandbox.Spec{Isolation: 9}, sandbox.Invalid, "isolation"},
		{"missing directory", sandbox.Spec{Image: "/does/not/exist"}, sandbox.NotFound, ""},
		{"no image at all", sandbox.Spec{Image: writeFile(t, "not an archive")}, sandbox.Invalid, "image"},
		{"/proc is a link", sandbox.Spec{Image: linkedImage(t, "proc")}, sandbox.Invalid, "image"},
		{"/dev is a link", sandbox.Spec{Image: linkedImage(t, "dev")}, sandbox.Invalid, "image"},
		{"/tmp is a link", sandbox.Spec{Image: linkedImage(t, "tmp")}, sandbox.Invalid, "image"},
		{"kernel boundary", sandbox.Spec{Isolation: sandbox.KernelBoundary}, sandbox.Unsupported, "isolation"},
		{"hardware boundary", sandbox.Spec{Isolation: sandbox.HardwareBoundary}, sandbox.Unsupported, "isolation"},
		{"egress", sandbox.Spec{Network: sandbox.Network{Mode: sandbox.EgressNetwork}}, sandbox.Unsupported, "network.mode"},
		{"too little memory", sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: 1}}, sandbox.Invalid, "limits.memory"},
		{"too little disk", sandbox.Spec{Limits: sandbox.Limits{DiskBytes: 1}}, sandbox.Invalid, "limits.disk"},
		{"missing mount source", mount("/does/not/exist", "/mnt"), sandbox.Invalid, "mounts"},
		{"mount target below a file", mount("/usr", "/etc/passwd/x"), sandbox.Invalid, "mounts"},
		{"mount target in a read-only place", mount("/usr", "/usr/no/such"), sandbox.Invalid, "mounts"},
		{"relative mount", mount("usr", "/mnt"), sandbox.Invalid, "mounts"},
		{"mount over all", mount("/usr", "/tmp/.."), sandbox.Invalid, "mounts"},
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// linkedImage is a hostile image: a mount point in it leads elsewhere.
func linkedImage(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink("/etc", filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRefusedSpecsLeaveNothing(t *testing.T) {
	driver, runDir := newDriver(t)
	warm(t, driver, 0)
	before := takeCensus(t, runDir)
	for _, c := range refusals(t) {
		t.Run(c.name, func(t *testing.T) {
			instance, err := driver.Create(t.Context(), c.spec)
			if err == nil {
				destroy(t, instance)
			}
			wantClass(t, err, c.class, c.field)
			if unsupported := errors.Is(err, errors.ErrUnsupported); unsupported != (c.class == sandbox.Unsupported) {
				t.Errorf("errors.ErrUnsupported: %v", unsupported)
			}
		})
	}
	wantNoGrowth(t, before, runDir)
}

func TestLimitsThatCannotBeHeldAreRefused(t *testing.T) {
	if !ordinary() {
		t.Skip("root holds every limit")
	}
	driver, _ := newDriver(t)
	for _, limits := range []sandbox.Limits{{MemoryBytes: 64 << 20}, {CPUs: 1}} {
		_, err := driver.Create(t.Context(), sandbox.Spec{Limits: limits})
		wantClass(t, err, sandbox.Unavailable, "")
		if err != nil && !strings.Contains(err.Error(), "(") {
			t.Errorf("no remedy is given: %v", err)
		}
	}
}

func TestCommandDefaults(t *testing.T) {
	driver, _ := newDriver(t)
	show := "echo $(id -u):$(id -g) $HOME $PWD $GREETING"
	root := sandbox.CommandDefaults{User: "root"}
	for _, c := range []struct {
		name     string
		defaults sandbox.CommandDefaults
		want     string
	}{
		{"none", sandbox.CommandDefaults{}, "1000:1000 /home/user /home/user"},
		{"all but the user", sandbox.CommandDefaults{WorkDir: "/tmp", Env: map[string]string{"GREETING": "hi"}}, "1000:1000 /home/user /tmp hi"},
		{"user", root, "0:0 /root /home/user"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.defaults.User == "root" {
				needRoot(t, "second id to give to a cell")
			}
			if got := sh(t, create(t, driver, sandbox.Spec{Command: c.defaults}), show); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestOtherUsersAreUnavailableToAnOrdinaryUser(t *testing.T) {
	if !ordinary() {
		t.Skip("root has every id")
	}
	instance := newCell(t, sandbox.Spec{Command: sandbox.CommandDefaults{User: "root"}})
	_, err := try(t.Context(), client(t, instance), shell("true"))
	wantClass(t, err, sandbox.Unavailable, "")
}
