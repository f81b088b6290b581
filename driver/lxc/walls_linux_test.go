package lxc_test

import (
	"errors"
	"slices"
	"testing"

	"aether/driver/launched/launchedtest"
	"aether/sandbox"
)

func TestBoxFilter(t *testing.T) {
	needLXC(t)
	instance := launchedtest.Create(t, newDriver(t.TempDir()), sandbox.Spec{})
	launchedtest.Filter(t, instance, slices.Concat(launchedtest.Refused, launchedtest.InPart))
}

func TestBoxWalls(t *testing.T) {
	needLXC(t)
	instance := launchedtest.Create(t, newDriver(t.TempDir()), sandbox.Spec{ID: "walls"})
	launchedtest.Walls(t, instance, map[string]string{"ls /sys": ""})
}

func TestHostsNetworkIsRefused(t *testing.T) {
	needLXC(t)
	_, err := newDriver(t.TempDir()).Create(t.Context(), sandbox.Spec{Network: sandbox.Network{Mode: sandbox.HostNetwork}})
	var e *sandbox.Error
	if !errors.Is(err, errors.ErrUnsupported) || !errors.As(err, &e) || e.Field != "network.mode" {
		t.Errorf("%v", err)
	}
}

func TestBoxWithTheLeastMemory(t *testing.T) {
	needLXC(t)
	launchedtest.LeastMemory(t, newDriver(t.TempDir()))
}
