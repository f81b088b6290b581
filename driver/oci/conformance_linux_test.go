package oci_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"aether/driver/command/commandtest"
	"aether/driver/drivertest"
	"aether/driver/guestagent"
	"aether/driver/oci"
	"aether/network/networktest"
	"aether/sandbox"
)

// runtimeVariable tells a program that plays a part which runtime it uses.
const runtimeVariable = "AETHER_OCI_TEST_RUNTIME"

func newDriver(dir string) sandbox.Driver {
	return oci.New(oci.Options{Runtime: oci.Runtime(os.Getenv(runtimeVariable)), RunDir: dir, Images: commandtest.Images, Network: networktest.Service()})
}

func TestMain(m *testing.M) { os.Exit(commandtest.Main(m, newDriver, prepare)) }

// prepare takes what `make youki` made to where an ordinary user reaches it too, and
// into PATH.
func prepare(dir string) error {
	built, err := os.ReadFile("../../bin/youki")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it may be in PATH
	}
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "youki"), built, 0o755); err != nil {
		return err
	}
	return os.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// forEach runs a test for each runtime that is installed.
func forEach(t *testing.T, test func(*testing.T)) {
	for _, r := range []oci.Runtime{oci.Runc, oci.Crun, oci.Youki} {
		t.Run(string(r), func(t *testing.T) {
			t.Setenv(runtimeVariable, string(r))
			if _, err := exec.LookPath(string(r)); err != nil {
				t.Skip(err)
			}
			if r != oci.Crun && os.Geteuid() != 0 {
				report := newDriver(t.TempDir()).Probe(t.Context())
				t.Skipf("%s (%s)", report.Reason, report.Remedy)
			}
			test(t)
		})
	}
}

func TestConformance(t *testing.T) {
	forEach(t, func(t *testing.T) {
		drivertest.Run(t, drivertest.Config{New: newDriver, Overhead: guestagent.Overhead, Pace: 2, Weaknesses: commandtest.Weaknesses()})
	})
}

func TestAgainAsOrdinaryUser(t *testing.T) {
	commandtest.AsOrdinaryUser(t, "^(TestConformance|TestBox.*)$")
}
