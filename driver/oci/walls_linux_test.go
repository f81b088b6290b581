package oci_test

import (
	"slices"
	"testing"

	"aether/driver/launched/launchedtest"
	"aether/sandbox"
)

func TestBoxFilter(t *testing.T) {
	forEach(t, func(t *testing.T) {
		instance := launchedtest.Create(t, newDriver(t.TempDir()), sandbox.Spec{})
		launchedtest.Filter(t, instance, slices.Concat(launchedtest.Refused, launchedtest.InPart))
	})
}

func TestBoxWalls(t *testing.T) {
	forEach(t, func(t *testing.T) {
		instance := launchedtest.Create(t, newDriver(t.TempDir()), sandbox.Spec{ID: "walls"})
		launchedtest.Walls(t, instance, map[string]string{"ls /sys": "", "echo x > /dev/new || echo no": "no"})
	})
}

func TestBoxOnTheHostsNetwork(t *testing.T) {
	forEach(t, func(t *testing.T) { launchedtest.HostNetwork(t, newDriver(t.TempDir())) })
}
