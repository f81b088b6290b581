package network_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/network"
	"aether/network/networktest"
	"aether/sandbox"
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if process := os.Getenv(ownerVariable); process != "" {
		return own(process)
	}
	dir, err := os.MkdirTemp("", "aether-network-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = networktest.Build(dir)
	}
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	return m.Run()
}

// elsewhere is a process in namespaces of its own.
func elsewhere(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("sleep", "3600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	if err := cmd.Start(); err != nil {
		t.Skipf("no user and net namespaces here: %v", err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd.Process.Pid
}

// holds are what this program and its children hold: processes of the gateways, and
// descriptors.
func holds(t *testing.T) (processes []string, files int) {
	t.Helper()
	children, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range children {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		if fields := strings.Fields(string(text)); fields[1] == "(aether-net)" && fields[3] == strconv.Itoa(os.Getpid()) {
			processes = append(processes, fields[0])
		}
	}
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return processes, len(list)
}

func devices(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/net/dev")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestClosedServiceLeavesNothing: neither a device nor a process nor a descriptor.
func TestClosedServiceLeavesNothing(t *testing.T) {
	pid := elsewhere(t)
	closeOne := func(s *network.Service) {
		t.Helper()
		at := network.Place{PID: pid, Still: func() error { return nil }}
		a, err := s.Connect(t.Context(), sandbox.Network{Mode: sandbox.EgressNetwork}, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		if all := devices(t, pid); !strings.Contains(all, "eth0:") {
			t.Errorf("there is no device: %s", all)
		}
		if processes, _ := holds(t); len(processes) != 1 {
			t.Errorf("the gateways are in the processes %v", processes)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := s.Connect(t.Context(), sandbox.Network{Mode: sandbox.EgressNetwork}, at, nil); sandbox.ClassOf(err) != sandbox.Conflict {
			t.Errorf("a closed service: %v", err)
		}
	}
	closeOne(network.New(network.Options{})) // what is made once for a program
	_, before := holds(t)
	closeOne(network.New(network.Options{}))
	var processes []string
	after, all := 0, ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		processes, after = holds(t)
		if all = devices(t, pid); len(processes) == 0 && after <= before && !strings.Contains(all, "eth0:") {
			return
		}
	}
	t.Errorf("processes %v, %d descriptors and before %d, devices %q", processes, after, before, all)
}

// TestConnectOnThisHost: a device is never made in this program's own net namespace.
func TestConnectOnThisHost(t *testing.T) {
	s := network.New(network.Options{})
	defer s.Close()
	before := devices(t, os.Getpid())
	a, err := s.Connect(t.Context(), sandbox.Network{Mode: sandbox.EgressNetwork}, network.Place{PID: os.Getpid(), Still: func() error { return nil }}, nil)
	if err == nil || a != nil {
		t.Errorf("%v, %v", a, err)
	}
	names := func(text string) (list []string) {
		for line := range strings.Lines(text) {
			name, _, _ := strings.Cut(strings.TrimSpace(line), ":")
			list = append(list, name)
		}
		return list
	}
	if now := devices(t, os.Getpid()); !slices.Equal(names(now), names(before)) {
		t.Errorf("before\n%s\nnow\n%s", before, now)
	}
}

// TestSetNetworkOfNone: who is on no network cannot be given one.
func TestSetNetworkOfNone(t *testing.T) {
	var none *network.Attached
	for class, n := range map[sandbox.Class]sandbox.Network{
		sandbox.Unsupported: {Mode: sandbox.EgressNetwork},
		sandbox.Invalid:     {Mode: sandbox.EgressNetwork, Allow: []string{"a b"}},
	} {
		if err := none.SetNetwork(context.Background(), n); sandbox.ClassOf(err) != class {
			t.Errorf("%+v: %v", n, err)
		}
	}
	var missing *network.Service
	if err := missing.Accepts(sandbox.Network{Mode: sandbox.EgressNetwork}); sandbox.ClassOf(err) != sandbox.Unsupported {
		t.Error(err)
	}
	if err := missing.Accepts(sandbox.Network{}); err != nil {
		t.Error(err)
	}
}
