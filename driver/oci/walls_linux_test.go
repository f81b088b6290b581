package oci_test

import (
	"os"
	"slices"
	"testing"

	"aether/driver/command/commandtest"
	"aether/driver/oci"
	"aether/sandbox"
)

func TestBoxFilter(t *testing.T) {
	forEach(t, func(t *testing.T) {
		instance := commandtest.Create(t, newDriver(t.TempDir()), sandbox.Spec{})
		inPart := commandtest.InPart
		if os.Getenv(runtimeVariable) == string(oci.Youki) {
			inPart = commandtest.InPartCompiled()
		}
		commandtest.Filter(t, instance, slices.Concat(commandtest.Refused, inPart))
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
