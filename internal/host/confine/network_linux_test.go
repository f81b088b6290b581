package confine

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"
)

// TestNetworkIsKept: a cell that used no network leaves its net namespace to a later one,
// unless somebody was let into it from outside.
func TestNetworkIsKept(t *testing.T) {
	host := openHostWith(t, Options{KeepNetworks: true})
	if host.networks == nil {
		t.Skip("root's cells alone leave their net namespaces to others")
	}
	base, err := host.Prepare(hostTree(t))
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	config := Config{Hostname: "cell", Upper: 1 << 20, Group: noGroup}
	for _, test := range []struct {
		name string
		do   func(*Cell) error
		kept bool
	}{
		{"nothing was done", func(*Cell) error { return nil }, true},
		{"somebody was let in", func(c *Cell) error { return c.WithInit(func(int) error { return nil }) }, false},
		{"somebody was let in by the warm cell", func(c *Cell) error { return (&WarmCell{c}).WithInit(func(int) error { return nil }) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			cell, err := base.Boot(config)
			if err != nil {
				t.Fatal(err)
			}
			before := networkOf(t, cell) // open, so that no other can have its number
			defer before.Close()
			if err := test.do(cell); err != nil {
				t.Error(err)
			}
			endCell(t, cell)
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

// TestThreadThatIsAway: a thread that did not come home from a net namespace makes no cell,
// which would be in that one.
func TestThreadThatIsAway(t *testing.T) {
	host := openHostWith(t, Options{KeepNetworks: true})
	if host.networks == nil {
		t.Skip("root's threads alone go to net namespaces")
	}
	base, err := host.Prepare(hostTree(t))
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
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
	file, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", cell.Pid()))
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
