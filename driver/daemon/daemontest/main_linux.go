package daemontest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"aether/driver/drivertest"
	"aether/driver/guestagent/guestagenttest"
	"aether/image"
	"aether/network/networktest"
	"aether/sandbox"
)

// storeVariable tells a program that plays a part where the images are.
const storeVariable = "AETHER_DAEMONS_TEST_IMAGES"

// Images opens the store that all tests of a package share.
func Images() (*image.Store, error) { return image.Open(os.Getenv(storeVariable)) }

// missing is why there is no daemon to test with, or empty.
var missing string

// Need skips where there is no daemon to test with.
func Need(t *testing.T) {
	t.Helper()
	if missing != "" {
		t.Skip(missing)
	}
}

// Main is a package's TestMain. Lacks says why there can be no daemon, or nothing;
// start starts one in a directory and makes it the default of all drivers.
func Main(m *testing.M, new func(dir string) sandbox.Driver, lacks func() string, start func(dir string) (stop func(), err error)) int {
	if played, code := drivertest.Play(new); played {
		return code
	}
	if played, code := playVictim(new); played {
		return code
	}
	dir, err := os.MkdirTemp("", "aether-daemon-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = prepare(dir)
	}
	if missing = lacks(); err == nil && missing == "" {
		runtime.LockOSThread() // with which the daemon dies
		var stop func()
		if stop, err = start(dir); err == nil {
			defer stop()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func prepare(dir string) error {
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	if err := os.Setenv(storeVariable, filepath.Join(dir, "images")); err != nil {
		return err
	}
	return errors.Join(guestagenttest.Build(dir), networktest.Build(dir))
}
