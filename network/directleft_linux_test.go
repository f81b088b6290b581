package network_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"aether/internal/host/netdev/netdevtest"
	"aether/internal/unprivtest"
	"aether/network"
	"aether/sandbox"

	"github.com/google/nftables"
)

// natLeft is what a host has of programs with sandboxes of the mode: cables and tables.
func natLeft(t *testing.T) (left []string) {
	t.Helper()
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if strings.HasPrefix(l.Name, "aether") {
			left = append(left, l.Name)
		}
	}
	tables, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	all, err := tables.ListTables()
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range all {
		left = append(left, "table "+table.Name)
	}
	return left
}

func wantNatLeft(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		left, sandbox := natLeft(t), devices(t, pid)
		if len(left) == 0 && !strings.Contains(sandbox, "eth0:") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("left: %q; the sandbox has %s", left, sandbox)
		}
	}
}

// TestNatCloseLeavesNothing: neither a device nor a table nor a descriptor.
func TestNatCloseLeavesNothing(t *testing.T) {
	if !netdevtest.Again(t, hosts) {
		return
	}
	internet(t)
	life := func() {
		s := network.New(network.Options{})
		one, other := enter(t, s, natted("a.example")), enter(t, s, natted("a.example"))
		one.wantName(someHost, "a.example")
		one.want(true, someHost, at)
		if err := one.attached.Close(); err != nil {
			t.Error(err)
		}
		if all := devices(t, one.pid); strings.Contains(all, "eth0:") {
			t.Errorf("the sandbox has its device: %s", all)
		}
		other.wantName(someHost, "a.example")
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		wantNatLeft(t, other.pid)
	}
	life() // what is made once for a program
	_, before := holds(t)
	life()
	const held = 2 * 3 // the process, net and user namespace of each sandbox, which this test holds to its end
	var after int
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, after = holds(t); after <= before+held {
			return
		}
	}
	t.Errorf("%d descriptors, and before %d", after, before)
}

const ownerVariable = "AETHER_TEST_OWNER"

// own is the program that TestNatKilled kills: it connects a process, and waits.
func own(process string) int {
	pid, err := strconv.Atoi(process)
	if err == nil {
		_, err = network.New(network.Options{}).Connect(context.Background(), natted(someHost), network.Place{PID: pid, Still: func() error { return nil }}, nil)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("connected")
	select {}
}

// TestNatKilled: a program that is killed leaves nothing on the host or in the sandbox, and
// the next begins anew.
func TestNatKilled(t *testing.T) {
	if !netdevtest.Again(t, hosts) {
		return
	}
	internet(t)
	pid := elsewhere(t)
	owner := exec.Command("/proc/self/exe")
	owner.Env = append(os.Environ(), ownerVariable+"="+strconv.Itoa(pid))
	owner.Stderr = os.Stderr
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "connected\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if left := natLeft(t); len(left) != 2 || !strings.Contains(devices(t, pid), "eth0:") {
		t.Errorf("while it lives: %q", left)
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait() // it was killed
	wantNatLeft(t, pid)
	again := enter(t, service(t), natted(someHost))
	again.want(true, someHost, at)
	if left := natLeft(t); len(left) != 2 {
		t.Errorf("the next has %q", left)
	}
}

// TestNatTakesRoot: others are refused it, with the reason.
func TestNatTakesRoot(t *testing.T) {
	if os.Geteuid() == 0 {
		unprivtest.AsOrdinaryUser(t, []string{"-test.run=^TestNatTakesRoot$"})
		return
	}
	s := network.New(network.Options{})
	defer s.Close()
	for _, err := range []error{s.Accepts(natted()), connectErr(t, s)} {
		if sandbox.ClassOf(err) != sandbox.Unavailable || !strings.Contains(err.Error(), "root") {
			t.Error(err)
		}
	}
}

func connectErr(t *testing.T, s *network.Service) error {
	t.Helper()
	_, err := s.Connect(t.Context(), natted(), network.Place{PID: elsewhere(t), Still: func() error { return nil }}, nil)
	return err
}
