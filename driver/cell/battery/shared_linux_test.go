package battery_test

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/guest"
	"aether/sandbox"
)

// kept is an attacker that goes on, and waits for a word before it speaks again.
type kept struct {
	mu   sync.Mutex
	said strings.Builder
	in   *io.PipeWriter
	done chan struct{}
}

func (k *kept) Write(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.said.Write(b)
}

func (k *kept) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.said.String()
}

// keep starts an attacker and waits until it has said a word.
func (b *box) keep(t *testing.T, word string, args ...string) *kept {
	t.Helper()
	args = append([]string{"patient"}, args...) // what it keeps it is to have first
	in, orders := io.Pipe()
	k := &kept{in: orders, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	if b == nil {
		cmd := exec.CommandContext(ctx, os.Getenv(attackerVariable), args...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = in, k, k
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { _ = cmd.Wait(); close(k.done) }()
	} else {
		p, err := b.client.Start(ctx, guest.Cmd{Path: inside + "/attacker", Args: args, Stdin: in, Stdout: k, Stderr: k})
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = p.Wait(); close(k.done) }()
	}
	t.Cleanup(func() { orders.Close(); cancel() })
	for end := time.Now().Add(attackTime); !strings.Contains(k.String(), word); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) || strings.Contains(k.String(), "held: ") {
			t.Fatalf("%q: %s", args, k)
		}
	}
	return k
}

// goOn has it speak, and gives what it says then.
func (k *kept) goOn(t *testing.T) string {
	t.Helper()
	_, _ = k.in.Write([]byte("\n")) // it may have ended
	select {
	case <-k.done:
	case <-time.After(attackTime):
		t.Fatalf("it does not end: %s", k)
	}
	return lastLine(k.String())
}

func (k *kept) want(t *testing.T, begins string) {
	t.Helper()
	if said := k.goOn(t); !strings.HasPrefix(said, begins) {
		t.Errorf("%q, want %q", said, begins)
	}
}

func (b *box) set(t *testing.T, n sandbox.Network) {
	t.Helper()
	if err := b.Instance.(sandbox.NetworkSetter).SetNetwork(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

// policyChanges: what is open is cut by a policy that does not allow it, at once, and goes on
// with one that does.
func (l *lot) policyChanges(t *testing.T) {
	b := l.cell(t, reaching("ok.example"))
	cut := b.keep(t, "holds", "hold", "ok.example:7")
	stays := b.keep(t, "holds", "hold", "ok.example:7")
	b.set(t, reaching("ok.example", "doh.example"))
	stays.want(t, "reached: ")
	b.set(t, reaching("doh.example"))
	cut.want(t, "held: ")
	if said := cut.String(); !strings.Contains(said, "reset") {
		t.Errorf("it was not reset: %s", said)
	}
	b.held(t, "say", "ok.example:80", "this is", get("ok.example"))
}

// passedDescriptors: a connection that another sandbox has made and passed on stays that
// one's, and its policy's. One that a program of the host passes on is the host's.
func (l *lot) passedDescriptors(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	shared := sandbox.Mount{Source: dir, Target: "/mnt/shared", Writable: true}
	giver, taker := l.cell(t, reaching("ok.example"), shared), l.cell(t, reaching("doh.example"), shared)
	giver.keep(t, "gives", "give", "/mnt/shared/socket", "ok.example:7")
	took := taker.keep(t, "took", "take", "/mnt/shared/socket")
	giver.set(t, reaching("doh.example"))
	took.want(t, "held: ")
	plain.keep(t, "gives", "give", filepath.Join(dir, "host"), net.JoinHostPort(evil, "7"))
	taker.keep(t, "took", "take", "/mnt/shared/host").want(t, "reached: ")
}

// twoSandboxes: neither reaches the other, whatever it may.
func (l *lot) twoSandboxes(t *testing.T) {
	one := l.cell(t, reaching(sandbox.PublicList))
	one.keep(t, "listens", "listen", "7071")
	address := one.address(t)
	other := l.cell(t, reaching(sandbox.PublicList, address, "198.18.0.0/15", sandbox.Gateway))
	if other.address(t) == address {
		t.Errorf("both have the address %s", address)
	}
	other.held(t, "say", address+":7071", "a neighbour")
	other.held(t, "say", sandbox.Gateway+":7071", "a neighbour")
	l.cell(t, sandbox.Network{Mode: sandbox.HostNetwork}).keep(t, "listens", "listen", "7072")
	plain.reached(t, "say", "127.0.0.1:7072", "a neighbour")
}

func (b *box) address(t *testing.T) string {
	t.Helper()
	return b.reached(t, "address")
}

// forks: a child has none of its source's connections, which it finds reset, and not its
// address.
func (l *lot) forks(t *testing.T) {
	if l.driver.Info().Verbs.Fork == "" {
		t.Skip("cells are not forked on this architecture")
	}
	source := l.cell(t, reaching("ok.example"))
	source.keep(t, "holds", "await", "ok.example:7", "/tmp/go", "/tmp/said")
	children, err := source.Instance.(sandbox.Forker).Fork(t.Context(), []sandbox.Spec{{}, {Network: reaching("doh.example")}})
	if err != nil {
		t.Fatal(err)
	}
	same, other := l.wrap(t, children[0]), l.wrap(t, children[1])
	own := map[string]bool{}
	for b, want := range map[*box]string{source: "reached: ", same: "held: ", other: "held: "} {
		own[b.address(t)] = true
		const script = `touch /tmp/go; for i in $(seq 6000); do test -e /tmp/said && exec cat /tmp/said; sleep 0.01; done`
		if _, said := b.shell(t, nil, "", script); !strings.HasPrefix(said.stdout, want) {
			t.Errorf("by the source's connection: %+v, want %q", said, want)
		}
	}
	if len(own) != 3 {
		t.Errorf("three cells have the addresses %v", own)
	}
	same.reached(t, "say", "ok.example:80", "this is", get("ok.example"))
	other.held(t, "say", "ok.example:80", "this is", get("ok.example"))
	plain.reached(t, "inherit", net.JoinHostPort(okay, "7"))
}
