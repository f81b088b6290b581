package oci_test

import (
	"slices"
	"testing"

	"aether/driver/command/commandtest"
	"aether/sandbox"
)

func TestBoxFilter(t *testing.T) {
	forEach(t, func(t *testing.T) {
		instance := commandtest.Create(t, newDriver(t.TempDir()), sandbox.Spec{})
		commandtest.Filter(t, instance, slices.Concat(commandtest.Refused, commandtest.InPart))
	})
}

func TestBoxWalls(t *testing.T) {
	forEach(t, func(t *testing.T) {
		instance := commandtest.Create(t, newDriver(t.TempDir()), sandbox.Spec{ID: "walls"})
		commandtest.Walls(t, instance, map[string]string{"ls /sys": "", "echo x > /dev/new || echo no": "no"})
	})
}

func TestBoxOnTheHostsNetwork(t *testing.T) {
	forEach(t, func(t *testing.T) { commandtest.HostNetwork(t, newDriver(t.TempDir())) })
}
