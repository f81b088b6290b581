package nat

import (
	"os"
	"testing"

	"aether/internal/host/netdev/netdevtest"
)

// TestMain runs the tests as a host of their own.
func TestMain(m *testing.M) {
	inside, status := netdevtest.Main()
	if inside {
		status = m.Run()
	}
	os.Exit(status)
}
