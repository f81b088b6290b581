package cell_test

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// outside is what networks of cells could leave on the host.
type outside struct {
	devices, routes, rules []string
	// namespaces is how many net namespaces the kernel has, or -1 where only root is told.
	namespaces int
}

// What others on the host may make meanwhile. A leak is of every cell, or of every tenth.
const (
	otherNamespaces = 40
	otherDevices    = 2
)

func hostNetwork(t testing.TB) outside {
	t.Helper()
	o := outside{namespaces: -1}
	for _, line := range lines(t, "/proc/net/dev") {
		if name, _, ok := strings.Cut(line, ":"); ok {
			o.devices = append(o.devices, strings.TrimSpace(name))
		}
	}
	o.routes, o.rules = lines(t, "/proc/net/route"), ipTables(t)
	text, err := os.ReadFile("/proc/slabinfo")
	if err != nil {
		return o
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "net_namespace" {
			if o.namespaces, err = strconv.Atoi(fields[1]); err != nil {
				t.Fatal(err)
			}
		}
	}
	return o
}

// ipTables are the tables of rules that the kernel has, where it says so.
func ipTables(t testing.TB) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/net/ip_tables_names")
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

// wantNetwork gives the kernel time: it removes namespaces in the background.
func wantNetwork(t testing.TB, before outside) {
	t.Helper()
	var now outside
	if !eventually(30*time.Second, func() bool {
		now = hostNetwork(t)
		few := func(before, now []string) bool { return len(newIn(before, now)) <= otherDevices }
		return few(before.devices, now.devices) && few(before.routes, now.routes) && few(before.rules, now.rules) &&
			now.namespaces <= before.namespaces+otherNamespaces
	}) {
		t.Errorf("the host's network is not as before:\n%+v\n%+v", before, now)
	}
}

// gatewayDescriptors is how many descriptors the gateways of this program have, or -1 where
// only root is told.
func gatewayDescriptors(t testing.TB) int {
	t.Helper()
	if ordinary() {
		return -1
	}
	for _, p := range descendants(t, os.Getpid()) {
		command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if err != nil || !bytes.Equal(command, []byte("aether-net\x00")) {
			continue
		}
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID))
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	t.Fatal("there are no gateways")
	return 0
}

// wantDescriptors wants the gateways to have let go of all cells that have ended.
func wantDescriptors(t testing.TB, before int) {
	t.Helper()
	const noise = 2 // the runtime's own
	now := 0
	if !eventually(30*time.Second, func() bool { now = gatewayDescriptors(t); return now <= before+noise }) {
		t.Errorf("the gateways have %d descriptors, and had %d", now, before)
	}
}
