package drivertest

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"aether/sandbox"
)

func (s *suite) refusals() []test {
	var tests []test
	for _, c := range refused {
		tests = append(tests, test{c.name, func(t *testing.T) { s.refuse(t, c) }})
	}
	return append(tests, test{"broken image", s.brokenImage}, test{"stronger boundary", s.strongerBoundary}, test{"networks", s.networks})
}

// refusal is a Spec that must not become a sandbox.
type refusal struct {
	name  string
	spec  sandbox.Spec
	class sandbox.Class
	field string
}

var refused = []refusal{
	{"unknown image", sandbox.Spec{Image: "/does/not/exist"}, sandbox.NotFound, ""},
	{"bad id", sandbox.Spec{ID: "../x"}, sandbox.Invalid, "id"},
	{"no such boundary", sandbox.Spec{Isolation: 9}, sandbox.Invalid, "isolation"},
	{"too little memory", sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: 1}}, sandbox.Invalid, "limits.memory"},
	{"negative disk", sandbox.Spec{Limits: sandbox.Limits{DiskBytes: -1}}, sandbox.Invalid, "limits.disk"},
	{"negative read rate", sandbox.Spec{Limits: sandbox.Limits{DiskReadRate: -1}}, sandbox.Invalid, "limits.disk_read_rate"},
	{"negative write rate", sandbox.Spec{Limits: sandbox.Limits{DiskWriteRate: -1}}, sandbox.Invalid, "limits.disk_write_rate"},
	{"cpus that are no number", sandbox.Spec{Limits: sandbox.Limits{CPUs: math.NaN()}}, sandbox.Invalid, "limits.cpus"},
	{"bad variable", sandbox.Spec{Command: sandbox.CommandDefaults{Env: map[string]string{"A=B": ""}}}, sandbox.Invalid, "env"},
	{"relative directory", sandbox.Spec{Command: sandbox.CommandDefaults{WorkDir: "tmp"}}, sandbox.Invalid, "command.workdir"},
	{"no such network", sandbox.Spec{Network: sandbox.Network{Mode: "wifi"}}, sandbox.Invalid, "network.mode"},
	{"list without egress", sandbox.Spec{Network: sandbox.Network{Allow: []string{"example.org"}}}, sandbox.Invalid, "network.allow"},
	{"relative mount", sandbox.Spec{Mounts: []sandbox.Mount{{Source: "usr", Target: "/mnt"}}}, sandbox.Invalid, "mounts"},
	{"mount over all", sandbox.Spec{Mounts: []sandbox.Mount{{Source: "/usr", Target: "/tmp/.."}}}, sandbox.Invalid, "mounts"},
	{"negative lifetime", sandbox.Spec{Timeouts: sandbox.Timeouts{Lifetime: -1}}, sandbox.Invalid, "timeouts.lifetime"},
}

func (s *suite) refuse(t *testing.T, c refusal) {
	_, err := s.try(t, c.spec)
	wantClass(t, err, c.class)
	if c.field != "" && !namesField(err, c.field) {
		t.Errorf("the field %s is not named: %v", c.field, err)
	}
}

func (s *suite) brokenImage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("no archive"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := s.try(t, sandbox.Spec{Image: file})
	wantClass(t, err, sandbox.Invalid)
}

// strongerBoundary: a driver never pretends to give more than it does.
func (s *suite) strongerBoundary(t *testing.T) {
	for _, boundary := range sandbox.Boundaries() {
		b, err := s.try(t, sandbox.Spec{Isolation: boundary})
		switch gives := s.driver.Info().Boundary; {
		case boundary <= gives && err != nil:
			t.Errorf("%v: %v", boundary, err)
		case boundary > gives && !errors.Is(err, errors.ErrUnsupported):
			t.Errorf("%v was asked for, and %v is all that there is: %v, %v", boundary, gives, b, err)
		}
	}
}

// networks: a driver has the networks that it says, and refuses the others.
func (s *suite) networks(t *testing.T) {
	for _, mode := range []sandbox.NetworkMode{sandbox.NoNetwork, sandbox.EgressNetwork, sandbox.NatNetwork, sandbox.HostNetwork} {
		_, err := s.try(t, sandbox.Spec{Network: sandbox.Network{Mode: mode}})
		if !s.driver.Info().Networks.Has(mode) {
			wantClass(t, err, sandbox.Unsupported)
			if !namesField(err, "network.mode") {
				t.Errorf("%q: the field is not named: %v", mode, err)
			}
		} else if err != nil && sandbox.ClassOf(err) != sandbox.Unavailable {
			t.Errorf("%q: %v", mode, err)
		}
	}
}
