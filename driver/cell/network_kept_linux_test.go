package cell_test

import (
	"strings"
	"testing"
	"time"

	"aether/sandbox"
)

// TestNetworkShowsNoOther: whatever cells before it did on their loopbacks, a cell sees what
// the first one saw.
func TestNetworkShowsNoOther(t *testing.T) {
	needRoot(t, "net namespaces that one cell has after another")
	need(t, "bash")
	need(t, "python3")
	driver, _ := newDriverAhead(t, 2)
	const see = "cat /proc/net/dev /proc/net/snmp /proc/net/snmp6 /proc/net/netstat /proc/net/unix /proc/net/tcp /proc/net/udp /proc/net/igmp /proc/net/igmp6"
	var first string
	for n := range 40 {
		instance, err := driver.Create(t.Context(), sandbox.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		seen := sh(t, instance, see)
		if n == 0 {
			first = seen
		}
		old := strings.Split(first, "\n")
		for i, line := range strings.Split(seen, "\n") {
			if i >= len(old) || line != old[i] {
				t.Errorf("cell %d sees %q, which the first one did not", n, line)
				break
			}
		}
		switch n % 4 {
		case 1:
			sh(t, instance, "bash -c 'echo here > /dev/udp/127.0.0.1/9'")
		case 2: // which is told to the world, here itself, when the socket is closed already
			sh(t, instance, `python3 -c 'from socket import *
socket(AF_INET, SOCK_DGRAM).setsockopt(IPPROTO_IP, IP_ADD_MEMBERSHIP, inet_aton("239.1.2.3") + inet_aton("127.0.0.1"))'`)
		case 3:
			sh(t, instance, "bash -c 'exec 3<>/dev/tcp/127.0.0.1/9' 2>/dev/null || true")
		}
		destroy(t, instance)
		time.Sleep(20 * time.Millisecond) // for some to be looked into
	}
}
