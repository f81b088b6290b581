package lxc_test

import (
	"errors"
	"slices"
	"testing"

	"aether/driver/command/commandtest"
	"aether/sandbox"
)

func TestBoxFilter(t *testing.T) {
	needLXC(t)
	instance := commandtest.Create(t, newDriver(t.TempDir()), sandbox.Spec{})
	commandtest.Filter(t, instance, slices.Concat(commandtest.Refused, commandtest.InPart))
}

func TestBoxWalls(t *testing.T) {
	needLXC(t)
	instance := commandtest.Create(t, newDriver(t.TempDir()), sandbox.Spec{ID: "walls"})
	commandtest.Walls(t, instance, map[string]string{"ls /sys": ""})
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
	commandtest.LeastMemory(t, newDriver(t.TempDir()))
}
