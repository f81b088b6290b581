package nspawn_test

import (
	"errors"
	"testing"

	"aether/driver/command/commandtest"
	"aether/sandbox"
)

// TestBoxFilter: the program has a list of its own, which knows no arguments.
// User namespaces are out of reach by their number: ENOSPC.
func TestBoxFilter(t *testing.T) {
	needNspawn(t)
	instance := commandtest.Create(t, newDriver(t.TempDir()), sandbox.Spec{})
	commandtest.Filter(t, instance, append(commandtest.Refused, commandtest.Call{Args: "56 0x10000011", Want: "28", Why: "clone with a user namespace"}))
}

func TestBoxWalls(t *testing.T) {
	needNspawn(t)
	instance := commandtest.Create(t, newDriver(t.TempDir()), sandbox.Spec{ID: "walls"})
	commandtest.Walls(t, instance, map[string]string{
		"find /sys -writable":                          "",
		"head -c 2M /dev/zero >/run/file || echo full": "full",
	})
}

func TestHostsNetworkIsRefused(t *testing.T) {
	needNspawn(t)
	_, err := newDriver(t.TempDir()).Create(t.Context(), sandbox.Spec{Network: sandbox.Network{Mode: sandbox.HostNetwork}})
	var e *sandbox.Error
	if !errors.Is(err, errors.ErrUnsupported) || !errors.As(err, &e) || e.Field != "network.mode" {
		t.Errorf("%v", err)
	}
}

func TestBoxWithTheLeastMemory(t *testing.T) {
	needNspawn(t)
	commandtest.LeastMemory(t, newDriver(t.TempDir()))
}
