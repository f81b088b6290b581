package gateway

import (
	"os"
	"testing"

	"aether/internal/host/netdev/netdevtest"
)

// TestMain runs the tests in a network of their own, where some addresses of the
// Internet are servers of the tests'.
func TestMain(m *testing.M) {
	inside, status := netdevtest.Main("93.184.0.0/16", "10.99.0.0/16", "169.254.169.254/32", "2606:2800::/32")
	if inside {
		status = m.Run()
	}
	os.Exit(status)
}
