package confine

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestEscapeNoticesWeakCells takes one wall away at a time and makes the attack
// that it stands against: one that then answers as before proves nothing.
func TestEscapeNoticesWeakCells(t *testing.T) {
	for _, c := range []struct {
		name    string
		without []string
		edit    func(*scene, *Config)
		attack  string
		trial   string
	}{
		{"no filter: namespaces", []string{partFilter}, nil, "kernel", "clone user"},
		{"no filter: keyrings", []string{partFilter}, nil, "kernel", "keyctl"},
		{"no filter: status", []string{partFilter}, nil, "privileges", "have another Seccomp"},
		{"capabilities left: bounding set", []string{partBounds}, nil, "privileges", "have another CapBnd"},
		{"capabilities left: new ones", []string{partCapabilities}, nil, "privileges", "have another NoNewPrivs"},
		{"nothing covered", []string{partMasks}, nil, "proc", "read interrupts"},
		{"nothing covered: directories", []string{partMasks}, nil, "proc", "list fs"},
		{"no landlock and no filter", []string{partLandlock, partFilter}, nil, "devices", "make a whiteout"},
		{"no landlock and no filter: by renaming", []string{partLandlock, partFilter}, nil, "devices", "make a whiteout by renaming"},
		{"no resource limits", []string{partRlimits}, nil, "privileges", "have crashes told to the host"},
		{"no filter: resource limits", []string{partFilter}, nil, "privileges", "have crashes told to the host"},
		{"the host's network", nil, func(_ *scene, c *Config) { c.HostNetwork = true }, "network", "the host's loopback"},
		{"the host's files", nil, showSecret, "files", "by its path"},
	} {
		for _, ready := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, standing by %v", c.name, ready), func(t *testing.T) {
				s := newScene(t, c.without...)
				s.ready = ready
				skipIfNeverThere(t, s, c.without)
				cell := s.boot(t, func(config *Config) {
					if c.edit != nil {
						c.edit(s, config)
					}
				})
				got := s.answers(t, cell, c.attack, who{"user", UserID}, s.facts)[c.trial]
				if !got.Passed {
					t.Errorf("the attack %q of %s still answers %q", c.trial, c.attack, got.Text)
				}
			})
		}
	}
}

// TestEscapeByDevicesHasTwoWalls takes away one of the two that stand against the
// making of device nodes: hosts without landlock have only the other.
func TestEscapeByDevicesHasTwoWalls(t *testing.T) {
	for _, without := range []string{partLandlock, partFilter} {
		t.Run("without "+without, func(t *testing.T) {
			s := newScene(t, without)
			if without == partFilter && s.host.landlockIn(Config{}) < landlockLeastABI {
				t.Skip("there is no landlock here, so that the filter is the only wall")
			}
			cell := s.boot(t, func(*Config) {})
			for trial, got := range s.answers(t, cell, "devices", who{"user", UserID}, s.facts) {
				// Landlock does not see the node that a rename leaves.
				unseen := without == partFilter && trial == "make a whiteout by renaming"
				if got.Passed && strings.HasPrefix(trial, "make a") && !unseen {
					t.Errorf("the attack %q passed", trial)
				}
			}
		})
	}
}

func showSecret(s *scene, c *Config) {
	dir := filepath.Dir(s.facts.File)
	c.Mounts = append(c.Mounts, Mount{Source: dir, Target: dir})
}

func skipIfNeverThere(t *testing.T, s *scene, without []string) {
	if s.ready && s.host.Identity.Single {
		t.Skip("nobody stands by for the cells of an ordinary user")
	}
	for _, name := range without {
		if name == partLandlock && s.host.landlockIn(Config{}) < landlockLeastABI {
			t.Skip("there is no landlock here to leave out")
		}
	}
}
