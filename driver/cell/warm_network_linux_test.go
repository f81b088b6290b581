package cell_test

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/network"
	"aether/sandbox"
)

// deviceAddress is the address of a cell's device, or an invalid one if it has none.
func deviceAddress(t *testing.T, instance sandbox.Instance) netip.Addr {
	t.Helper()
	text := sh(t, instance, `awk '/--/ {last=$2} /32 host LOCAL/ && last ~ /^198/ {print last; exit}' /proc/net/fib_trie`)
	address, _ := netip.ParseAddr(text)
	return address
}

// TestWarmNetworks: cells that are made ahead for the egress mode have their devices, and
// other cells have none.
func TestWarmNetworks(t *testing.T) {
	need(t, "awk")
	service := network.New(network.Options{})
	options := func(name string, ahead int) cell.Options {
		o := optionsIn(filepath.Join(t.TempDir(), name), ahead)
		o.Network = service
		return o
	}
	driver, other := cell.New(options("run", 3)), cell.New(options("other", 0))
	t.Cleanup(func() {
		if err := errors.Join(driver.Close(context.Background()), other.Close(context.Background()), service.Close()); err != nil {
			t.Error(err)
		}
	})
	spec := reaching("192.0.2.1:7")
	for range 2 { // from the second on, others are made ahead
		create(t, driver, spec)
	}
	ready := func() bool {
		time.Sleep(100 * time.Millisecond)
		late, warm := deviceAddress(t, create(t, other, spec)), deviceAddress(t, create(t, driver, spec))
		if !late.IsValid() || !warm.IsValid() || late == warm {
			t.Fatalf("the devices have the addresses %v and %v", late, warm)
		}
		return warm.Less(late) // it was made earlier, though it was asked for later
	}
	if !eventually(20*time.Second, ready) {
		t.Error("no device is made ahead")
	}
	for range 6 {
		if got := deviceAddress(t, create(t, driver, sandbox.Spec{})); got.IsValid() {
			t.Errorf("a cell without a network has the address %v", got)
		}
	}
}
