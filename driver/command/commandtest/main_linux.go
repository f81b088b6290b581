package commandtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aether/driver/drivertest"
	"aether/driver/guestagent/guestagenttest"
	"aether/image"
	"aether/network/networktest"
	"aether/sandbox"
)

// Maker makes the driver that is tested, which works in dir.
type Maker = func(dir string) sandbox.Driver

// storeVariable tells a program that plays a part where the images are.
const storeVariable = "AETHER_COMMAND_TEST_IMAGES"

// Images opens the store that all tests of a package share.
func Images() (*image.Store, error) { return image.Open(os.Getenv(storeVariable)) }

// Main is a package's TestMain. What prepare does, if it is not nil, is in a
// directory that ordinary users can pass through.
func Main(m *testing.M, make Maker, prepare func(dir string) error) int {
	if played, code := drivertest.Play(make); played {
		return code
	}
	dir, err := os.MkdirTemp("", "aether-command-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chmod(dir, 0o711)
	}
	if err == nil {
		err = errors.Join(guestagenttest.Build(dir), networktest.Build(dir))
	}
	if err == nil && os.Getenv(storeVariable) == "" {
		err = os.Setenv(storeVariable, filepath.Join(dir, "images"))
	}
	if err == nil && prepare != nil {
		err = prepare(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// AsOrdinaryUser runs tests of this package once more as one, with a store of
// images of its own.
func AsOrdinaryUser(t *testing.T, pattern string) {
	t.Helper()
	drivertest.AsOrdinaryUser(t, pattern, storeVariable+"=")
}

// Weaknesses are those of programs that an ordinary user runs: all of their sandboxes are
// that user, who also cannot make devices for them. Root's have none.
func Weaknesses() map[string]string {
	if os.Geteuid() == 0 {
		return nil
	}
	return drivertest.Weaker(drivertest.OneUser("all sandboxes of an ordinary user are that user"),
		drivertest.Weak("only root can make devices: those of an ordinary user's sandboxes are the host's", "locks of devices"))
}

// OrdinaryUserIsTold wants a driver that only root has to say so. It is for
// AsOrdinaryUser.
func OrdinaryUserIsTold(t *testing.T, make Maker) {
	if os.Geteuid() == 0 {
		t.Skip("TestAgainAsOrdinaryUser runs this")
	}
	driver := make(t.TempDir())
	if report := driver.Probe(t.Context()); report.Usable || !strings.Contains(report.Remedy, "root") {
		t.Errorf("%+v", report)
	}
	if _, err := driver.Create(t.Context(), sandbox.Spec{}); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("create: %v", err)
	}
}
