package oci_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"aether/driver/drivertest"
	"aether/driver/oci"
	"aether/guest/inside"
	"aether/guest/inside/insidetest"
	"aether/image"
	"aether/sandbox"
)

const (
	// storeVariable tells a program that plays a part where the images are, and
	// runtimeVariable which runtime it uses.
	storeVariable   = "AETHER_OCI_TEST_IMAGES"
	runtimeVariable = "AETHER_OCI_TEST_RUNTIME"
)

func newDriver(dir string) sandbox.Driver {
	return oci.New(oci.Options{Runtime: oci.Runtime(os.Getenv(runtimeVariable)), RunDir: dir,
		Images: func() (*image.Store, error) { return image.Open(os.Getenv(storeVariable)) }})
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if played, code := drivertest.Play(newDriver); played {
		return code
	}
	dir, err := os.MkdirTemp("", "aether-oci-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chmod(dir, 0o711)
	}
	if err == nil {
		err = insidetest.Build(dir)
	}
	if err == nil && os.Getenv(storeVariable) == "" {
		err = os.Setenv(storeVariable, filepath.Join(dir, "images"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

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
		drivertest.Run(t, drivertest.Config{New: newDriver, Overhead: inside.Overhead, Pace: 2})
	})
}

func TestAgainAsOrdinaryUser(t *testing.T) {
	drivertest.AsOrdinaryUser(t, "^(TestConformance|TestBox.*)$", storeVariable+"=")
}
