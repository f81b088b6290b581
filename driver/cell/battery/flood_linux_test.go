package battery_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"aether/driver/cell"
	"aether/internal/host/attacktest"
	"aether/network"
	"aether/sandbox"
)

// mostMemory is what the program of the gateways may take while one sandbox does its worst.
const mostMemory = 256 << 20

// flood has a cell do its worst, in a program of gateways that it shares with nobody but
// another cell, which has to go on. It gives what the attacker says, and the most memory
// that the program has had.
func (l *lot) flood(t *testing.T, n sandbox.Network, args ...string) (said string, memory int64) {
	t.Helper()
	service := network.New(network.Options{Roots: l.authority})
	driver := cell.New(cell.Options{Images: images, RunDir: filepath.Join(t.TempDir(), "run"), Network: service})
	own := &lot{l.world, driver}
	t.Cleanup(func() {
		if err := errors.Join(driver.Close(t.Context()), service.Close()); err != nil {
			t.Error(err)
		}
	})
	others := gateways(t)
	b, other := own.cell(t, n), own.cell(t, reaching("ok.example"))
	said = b.attack(t, args...)
	for pid := range gateways(t) {
		if !others[pid] {
			memory = peak(t, pid)
		}
	}
	if memory == 0 {
		t.Fatal("the gateways' program is gone")
	}
	t.Logf("%s; the gateways took up to %d MiB", said, memory>>20)
	other.reached(t, "say", "ok.example:80", "this is", get("ok.example"))
	return strings.TrimPrefix(said, "reached: "), memory
}

// gateways are the programs of gateways that this one has started.
func gateways(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		if fields := strings.Fields(string(text)); fields[1] == "(aether-net)" && fields[3] == strconv.Itoa(os.Getpid()) {
			found[fields[0]] = true
		}
	}
	return found
}

// peak is the most memory that a process has had.
func peak(t *testing.T, pid string) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			size, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return size << 10
		}
	}
	t.Fatalf("%s has no memory", pid)
	return 0
}

func wantLess(t *testing.T, memory int64) {
	t.Helper()
	if memory > mostMemory {
		t.Errorf("the gateways took %d MiB", memory>>20)
	}
}

// floodBegun: connections that are begun, half of them with a host that never answers, and
// forgotten.
func (l *lot) floodBegun(t *testing.T) {
	const port = 8
	fd, err := attacktest.Deaf(netip.AddrPortFrom(netip.MustParseAddr(okay), port))
	if err != nil {
		t.Fatal(err)
	}
	defer attacktest.Close(fd)
	_, memory := l.flood(t, reaching(sandbox.PublicList), "begin", fmt.Sprint("ok.example:", port), "10000")
	wantLess(t, memory)
}

// floodConnections: a sandbox has as many as its policy says, and 512 if that says nothing.
func (l *lot) floodConnections(t *testing.T) {
	n := reaching("ok.example")
	said, memory := l.flood(t, n, "connections", "ok.example:7", "900", "100")
	wantLess(t, memory)
	if made, err := strconv.Atoi(said); err != nil || made > 512 || made < 100 {
		t.Errorf("%s connections", said)
	}
	n.Connections = 2000
	said, _ = l.flood(t, n, "connections", "ok.example:7", "600", "513")
	if made, err := strconv.Atoi(said); err != nil || made <= 512 {
		t.Errorf("%s connections where 2000 are allowed", said)
	}
	if made, err := strconv.Atoi(plain.reached(t, "connections", okay+":7", "600", "600")); err != nil || made < 600 {
		t.Errorf("without a cell %d connections, %v", made, err)
	}
}

// floodWindows: hosts that send without end to whoever takes next to nothing. What they
// send is kept nowhere but in buffers that are bounded, as many as there are.
func (l *lot) floodWindows(t *testing.T) {
	said, memory := l.flood(t, reaching("ok.example"), "windows", "ok.example:19", "900", "20")
	wantLess(t, memory)
	if made, err := strconv.Atoi(said); err != nil || made < 20 || made > 512 {
		t.Errorf("%s connections", said)
	}
}

func (l *lot) floodFragments(t *testing.T) {
	said, memory := l.flood(t, reaching("ok.example/udp"), "fragments", "ok.example:9", "10000")
	wantLess(t, memory)
	if !strings.HasPrefix(said, "held: ") {
		t.Errorf("they came through: %s", said)
	}
	plain.reached(t, "fragments", okay+":9", "100")
}
