package drivertest

import (
	"testing"

	"aether/sandbox"
)

// Run holds a driver to the contract.
func Run(t *testing.T, config Config) {
	if config.New == nil {
		t.Fatal("drivertest: Config.New is not set")
	}
	t.Run("probe", config.probe)
	t.Run("leaks", config.leaks)
	t.Run("killed", config.killed)
	t.Run("close", config.closing)
	// The rest shares one driver and runs side by side.
	driver := config.New(t.TempDir())
	closeAfter(t, driver)
	s := &suite{Config: config, driver: driver}
	verbs := s.verbs(t)
	t.Run("neighbours", s.neighbours)
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"commands", s.commands()}, {"streams", s.streams()}, {"terminals", s.terminals()}, {"files", s.files()},
		{"limits", s.limits()}, {"isolation", s.isolation()}, {"mounts", s.mounts()}, {"lifecycle", s.lifecycle()},
		{"refusals", s.refusals()}, {"stats", s.stats()}, {"together", s.together()}, {"ports", s.ports()}, {"egress", s.egress(t)}, {"nat", s.nat(t)}, {"pause", verbs.pause},
		{"snapshot", verbs.snapshot}, {"fork", verbs.fork},
	} {
		if len(group.tests) == 0 {
			continue
		}
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.tests {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(t)
				})
			}
		})
	}
}

// verbs are the tests of what the driver implements beyond the least.
type verbs struct{ pause, snapshot, fork []test }

func (s *suite) verbs(t *testing.T) (v verbs) {
	b := s.make(t, sandbox.Spec{})
	defer b.destroy(t)
	if got, said := sandbox.VerbsOf(s.driver, b.Instance), s.driver.Info().Verbs; got != said {
		t.Errorf("the driver says that its sandboxes can do %+v, and they can do %+v", said, got)
	}
	if _, ok := b.Instance.(sandbox.Pauser); ok {
		v.pause = s.pausing()
	}
	_, snapshots := b.Instance.(sandbox.Snapshotter)
	if _, restores := s.driver.(sandbox.Restorer); snapshots && restores {
		v.snapshot = s.snapshots()
	} else if snapshots != restores {
		t.Errorf("snapshots are %v and restores are %v: each is of no use alone", snapshots, restores)
	}
	if _, ok := b.Instance.(sandbox.Forker); ok {
		v.fork = s.forks()
	}
	return v
}

// test is one promise.
type test struct {
	name string
	run  func(*testing.T)
}

// suite is a run of the tests that share a driver.
type suite struct {
	Config
	driver sandbox.Driver
	// reacher builds the program that probes the network, once.
	reacher func() (string, error)
	// mode is the network of the tests that have one.
	mode sandbox.NetworkMode
}
