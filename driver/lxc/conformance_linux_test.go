package lxc_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aether/driver/drivertest"
	"aether/driver/lxc"
	"aether/guest/inside"
	"aether/guest/inside/insidetest"
	"aether/image"
	"aether/sandbox"
)

// storeVariable tells a program that plays a part where the images are.
const storeVariable = "AETHER_LXC_TEST_IMAGES"

func newDriver(dir string) sandbox.Driver {
	return lxc.New(lxc.Options{RunDir: dir, Images: func() (*image.Store, error) { return image.Open(os.Getenv(storeVariable)) }})
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if played, code := drivertest.Play(newDriver); played {
		return code
	}
	dir, err := os.MkdirTemp("", "aether-lxc-")
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

// needLXC skips where the system is not installed, and where only root has it.
func needLXC(t *testing.T) {
	t.Helper()
	if report := newDriver(t.TempDir()).Probe(t.Context()); report.Version == "" || os.Geteuid() != 0 {
		t.Skipf("%s (%s)", report.Reason, report.Remedy)
	}
}

func TestConformance(t *testing.T) {
	needLXC(t)
	drivertest.Run(t, drivertest.Config{New: newDriver, Overhead: inside.Overhead, Pace: 2})
}

func TestAgainAsOrdinaryUser(t *testing.T) {
	needLXC(t)
	drivertest.AsOrdinaryUser(t, "^TestOrdinaryUserIsTold$", storeVariable+"=")
}

func TestOrdinaryUserIsTold(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("TestAgainAsOrdinaryUser runs this")
	}
	driver := newDriver(t.TempDir())
	if report := driver.Probe(t.Context()); report.Usable || !strings.Contains(report.Remedy, "root") {
		t.Errorf("%+v", report)
	}
	if _, err := driver.Create(t.Context(), sandbox.Spec{}); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("create: %v", err)
	}
}
