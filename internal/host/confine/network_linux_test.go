package confine

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestNetworkIsKept: a cell that used no network leaves its net namespace to a later one,
// unless somebody was let into it from outside.
func TestNetworkIsKept(t *testing.T) {
	for name, without := range map[string]map[string]bool{"by PID 1": nil, "by this program": {partHold: true}} {
		t.Run(name, func(t *testing.T) { networkIsKept(t, without) })
	}
}

// keepingBase is a base of a host that keeps net namespaces.
func keepingBase(t *testing.T, without map[string]bool) *Base {
	t.Helper()
	host := openHostWith(t, Options{KeepNetworks: true})
	if host.networks == nil {
		t.Skip("root's cells alone leave their net namespaces to others")
	}
	host.without = without
	base, err := host.Prepare(hostTree(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { base.Close() })
	return base
}

func networkIsKept(t *testing.T, without map[string]bool) {
	base := keepingBase(t, without)
	config := Config{Hostname: "cell", Upper: 1 << 20, Group: noGroup}
	for _, test := range []struct {
		name string
		do   func(*Cell) error
		kept bool
	}{
		{"nothing was done", func(*Cell) error { return nil }, true},
		{"it was given back", func(c *Cell) error { return c.Vacate() }, true},
		{"somebody was let in", func(c *Cell) error { return c.WithNetwork(func(int) error { return nil }) }, false},
		{"somebody was let in by the warm cell", func(c *Cell) error { return (&WarmCell{c}).WithNetwork(func(int) error { return nil }) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			cell, err := base.Boot(config)
			if err != nil {
				t.Fatal(err)
			}
			before := networkOf(t, cell) // open, so that no other can have its number
			defer before.Close()
			isHeldAs(t, cell, without, before)
			if err := test.do(cell); err != nil {
				t.Error(err)
			}
			endCell(t, cell)
			if err := cell.withLease(func(int) error { return nil }); !errors.Is(err, unix.ESRCH) {
				t.Errorf("into a cell that has ended: %v", err)
			}
			if cell.lease.here != nil || cell.lease.held != nil {
				t.Error("this program holds the net namespace of a cell that has ended")
			}
			// A kept one is there after a tenth of a second, and waits for five.
			patience := time.Minute
			if !test.kept {
				patience = time.Second
			}
			if found := comesAgain(t, base, config, before, patience); found != test.kept {
				t.Errorf("the net namespace comes again: %v, want %v", found, test.kept)
			}
		})
	}
}

// TestVacate: a cell whose net namespace another has got has one of its own again when
// somebody enters it, with a loopback that is up; one into which somebody was let keeps it.
func TestVacate(t *testing.T) {
	for name, without := range map[string]map[string]bool{"by PID 1": nil, "by this program": {partHold: true}} {
		t.Run(name, func(t *testing.T) {
			base := keepingBase(t, without)
			config := Config{Hostname: "cell", Upper: 1 << 20, Group: noGroup}
			cell := bootFrom(t, base, config)
			first := networkOf(t, cell)
			defer first.Close()
			isHeldAs(t, cell, without, first)
			for range 2 { // the second time there is none
				if err := cell.Vacate(); err != nil {
					t.Fatal(err)
				}
			}
			if !comesAgain(t, base, config, first, time.Minute) {
				t.Error("no other cell gets the net namespace")
			}
			const up = "grep -c 127.0.0.1 /proc/net/fib_trie"
			if out, code := sh(t, cell, up); code != 0 {
				t.Errorf("the loopback is down: %s", out)
			}
			second := networkOf(t, cell)
			defer second.Close()
			if sameFile(t, first, second) {
				t.Error("two cells have one net namespace")
			}
			if err := errors.Join(cell.WithNetwork(func(int) error { return nil }), cell.Vacate()); err != nil {
				t.Fatal(err)
			}
			if third := networkOf(t, cell); !sameFile(t, second, third) {
				t.Error("somebody was let into a net namespace that the cell has left")
			}
		})
	}
}

// isHeldAs has PID 1 hold the cell's net namespace, if it can: it is the same then.
func isHeldAs(t *testing.T, cell *Cell, without map[string]bool, before *os.File) {
	t.Helper()
	cell.parkLease()
	if here := cell.lease.here != nil; here != without[partHold] {
		t.Errorf("this program holds the net namespace: %v", here)
	}
	again := networkOf(t, cell)
	defer again.Close()
	if !sameFile(t, before, again) {
		t.Error("a cell has another net namespace than before")
	}
}

// TestThreadThatIsAway: a thread that did not come home from a net namespace makes no cell,
// which would be in that one.
func TestThreadThatIsAway(t *testing.T) {
	base := keepingBase(t, nil)
	host := base.host
	lost := errors.New("lost")
	for _, thread := range host.threads {
		if err := thread.Do(func() error { thread.away = lost; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for _, network := range []bool{false, true} {
		_, err := base.Boot(Config{Hostname: "cell", Upper: 1 << 20, Group: noGroup, HostNetwork: network})
		if !errors.Is(err, lost) {
			t.Errorf("on the host's network: %v: %v", network, err)
		}
	}
}

// comesAgain boots cells until one has that namespace, or patience is over. None ends
// before: it would leave another namespace, which would be taken first.
func comesAgain(t *testing.T, base *Base, config Config, before *os.File, patience time.Duration) bool {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		network := networkOf(t, bootFrom(t, base, config))
		found := sameFile(t, before, network)
		network.Close()
		if found {
			return true
		}
	}
	return false
}

func networkOf(t *testing.T, cell *Cell) *os.File {
	t.Helper()
	var file *os.File
	err := cell.withLease(func(fd int) (err error) {
		file, err = os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func sameFile(t *testing.T, a, b *os.File) bool {
	t.Helper()
	one, err := a.Stat()
	if err != nil {
		t.Fatal(err)
	}
	other, err := b.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return os.SameFile(one, other)
}
