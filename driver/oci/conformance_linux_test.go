package oci_test

import (
	"os"
	"testing"

	"aether/driver/command/commandtest"
	"aether/driver/drivertest"
	"aether/driver/guestagent"
	"aether/driver/oci"
	"aether/sandbox"
)

// runtimeVariable tells a program that plays a part which runtime it uses.
const runtimeVariable = "AETHER_OCI_TEST_RUNTIME"

func newDriver(dir string) sandbox.Driver {
	return oci.New(oci.Options{Runtime: oci.Runtime(os.Getenv(runtimeVariable)), RunDir: dir, Images: commandtest.Images})
}

func TestMain(m *testing.M) { os.Exit(commandtest.Main(m, newDriver, nil)) }

// forEach runs a test for each runtime that is installed.
func forEach(t *testing.T, test func(*testing.T)) {
	for _, r := range []oci.Runtime{oci.Runc, oci.Crun, oci.Youki} {
		t.Run(string(r), func(t *testing.T) {
			t.Setenv(runtimeVariable, string(r))
			report := newDriver(t.TempDir()).Probe(t.Context())
			if report.Version == "" || r == oci.Runc && os.Geteuid() != 0 {
				t.Skipf("%s (%s)", report.Reason, report.Remedy)
			}
			test(t)
		})
	}
}

func TestConformance(t *testing.T) {
	forEach(t, func(t *testing.T) {
		drivertest.Run(t, drivertest.Config{New: newDriver, Overhead: guestagent.Overhead, Pace: 2})
	})
}

func TestAgainAsOrdinaryUser(t *testing.T) {
	commandtest.AsOrdinaryUser(t, "^(TestConformance|TestBox.*)$")
}
