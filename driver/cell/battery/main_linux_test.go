package battery_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/guest"
	"aether/image"
	"aether/internal/host/netdev/netdevtest"
	"aether/internal/unprivtest"
	"aether/network"
	"aether/network/networktest"
	"aether/sandbox"
)

// The world: public hosts, private ones, one of metadata, and hosts of version 6.
var outside = netdevtest.World{
	Prefixes: []string{"93.184.0.0/16", "10.99.0.0/16", "169.254.169.254/32", "2606:2800::/32"},
	Own:      []string{ours + "/32"},
	Resolv:   "nameserver " + resolver + "\n",
	Hosts:    "127.0.0.1 localhost\n",
}

// attackerVariable names the program of the attacks where it is built already.
const attackerVariable = "AETHER_BATTERY_ATTACKER"

// scratch holds what all tests of one run share.
var scratch string

func TestMain(m *testing.M) {
	inside, status := outside.Main()
	if inside {
		status = run(m)
	}
	os.Exit(status)
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "aether-battery-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = errors.Join(os.Chmod(dir, 0o711), networktest.Build(dir), buildAttacker(dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	scratch = dir
	return m.Run()
}

// buildAttacker builds the program into a directory of its own, for cells to mount.
func buildAttacker(dir string) error {
	if os.Getenv(attackerVariable) != "" {
		return nil
	}
	path := filepath.Join(dir, "attacker", "attacker")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "aether/driver/cell/battery/attacker")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the attacker: %w\n%s", err, out)
	}
	return errors.Join(os.Chmod(filepath.Dir(path), 0o755), os.Setenv(attackerVariable, path))
}

// TestAgainAsOrdinaryUser runs the battery and the clients in cells of an ordinary user, in
// the same world.
func TestAgainAsOrdinaryUser(t *testing.T) {
	database(t)
	unprivtest.AsOrdinaryUser(t, []string{"-test.skip=^TestAgainAs"},
		attackerVariable+"="+os.Getenv(attackerVariable), network.PathVariable+"="+os.Getenv(network.PathVariable))
}

// images is one store for all tests.
var images = sync.OnceValues(func() (*image.Store, error) { return image.Open(filepath.Join(scratch, "images")) })

// lot is what a test has: the world, and cells in it.
type lot struct {
	*world
	driver *cell.Driver
}

func newLot(t *testing.T) *lot {
	t.Helper()
	w := newWorld(t)
	service := network.New(network.Options{Roots: w.authority})
	driver := cell.New(cell.Options{Images: images, RunDir: filepath.Join(t.TempDir(), "run"), Network: service})
	t.Cleanup(func() {
		if err := errors.Join(driver.Close(context.Background()), service.Close()); err != nil {
			t.Error(err)
		}
	})
	return &lot{w, driver}
}

// inside is where cells have the attacker.
const inside = "/mnt/attacker"

// box is a cell, whose root attacks where it has one, or nothing at all: the world as it is, for whoever wants to see that an
// attack works.
type box struct {
	sandbox.Instance
	client *guest.Client
}

// cell makes one that has a policy.
func (l *lot) cell(t *testing.T, n sandbox.Network, mounts ...sandbox.Mount) *box {
	t.Helper()
	if n.Mode == "" {
		n.Mode = sandbox.EgressNetwork
	}
	mounts = append(mounts, sandbox.Mount{Source: filepath.Dir(os.Getenv(attackerVariable)), Target: inside})
	instance, err := l.driver.Create(t.Context(), sandbox.Spec{Network: n, Mounts: mounts})
	if sandbox.ClassOf(err) == sandbox.Unavailable {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l.wrap(t, instance)
}

func (l *lot) wrap(t *testing.T, instance sandbox.Instance) *box {
	t.Helper()
	b := &box{instance, guest.NewClient(instance.Dial, guest.ClientOptions{User: "root"})}
	if _, err := b.client.Start(t.Context(), guest.Cmd{Path: "true"}); err != nil { // there is no root inside
		b.client.Close()
		b.client = guest.NewClient(instance.Dial, guest.ClientOptions{})
	}
	t.Cleanup(func() {
		b.client.Close()
		if err := instance.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// plain is no cell.
var plain = (*box)(nil)

const attackTime = 5 * time.Minute // more than an attack that is patient waits

// attack runs the attacker to its end and gives the last line that it says.
func (b *box) attack(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), attackTime)
	defer cancel()
	var out strings.Builder
	if b == nil {
		cmd := exec.CommandContext(ctx, os.Getenv(attackerVariable), args...)
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil {
			t.Fatalf("%q: %v: %s", args, err, out.String())
		}
		return lastLine(out.String())
	}
	p, err := b.client.Start(ctx, guest.Cmd{Path: inside + "/attacker", Args: args, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := p.Wait(); err != nil || status.Code != 0 {
		t.Fatalf("%q: %+v, %v: %s", args, status, err, out.String())
	}
	return lastLine(out.String())
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
