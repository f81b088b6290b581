package cell_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/driver/drivertest/leaktest"
	"aether/guest"
	"aether/image"
	"aether/internal/host/netdev/netdevtest"
	"aether/internal/soak"
	"aether/network"
	"aether/network/networktest"
	"aether/sandbox"
)

// answering is a server that says the line back which it is told.
func answering(host string) (net.Listener, error) {
	l, err := net.Listen("tcp4", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	go netdevtest.Accept(l, func(conn net.Conn) {
		if line, err := bufio.NewReader(conn).ReadString('\n'); err == nil {
			fmt.Fprint(conn, line)
		}
	})
	return l, nil
}

// request has a cell make one request of a server that it may reach.
func request(ctx context.Context, instance sandbox.Instance, server string) error {
	c := guest.NewClient(instance.Dial, guest.ClientOptions{})
	defer c.Close()
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return err
	}
	script := fmt.Sprintf("exec 3<>/dev/tcp/%s/%s; echo hello >&3; read -r said <&3; echo $said", host, port)
	out, err := try(ctx, c, guest.Cmd{Path: "bash", Args: []string{"-c", script}})
	if err == nil && strings.TrimSpace(out.stdout) != "hello" {
		err = fmt.Errorf("%q, %q", out.stdout, out.stderr)
	}
	return err
}

func reaching(server string) sandbox.Spec {
	return sandbox.Spec{Network: sandbox.Network{Mode: sandbox.EgressNetwork, Allow: []string{server}}}
}

// networkedLife is a cell that makes one request.
func networkedLife(ctx context.Context, driver sandbox.Driver, server string) error {
	instance, err := driver.Create(ctx, reaching(server))
	if err != nil {
		return err
	}
	return errors.Join(request(ctx, instance, server), instance.Destroy(context.WithoutCancel(ctx)))
}

// networkField is where cells on networks live, after which nothing of them is left.
type networkField struct {
	driver sandbox.Driver
	server string
	close  func() error
}

func newNetworkField(t *testing.T) networkField {
	t.Helper()
	need(t, "bash")
	host, runDir := networktest.HostAddress(t), filepath.Join(t.TempDir(), "run")
	// What the first makes stays: directories, the image, a thread.
	first := openNetworkField(t, host, runDir)
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	before, outside := takeCensus(t, runDir), hostNetwork(t)
	f := openNetworkField(t, host, runDir)
	t.Cleanup(func() {
		if err := f.close(); err != nil {
			t.Error(err)
		}
		wantNoGrowth(t, before, runDir)
		wantNetwork(t, outside)
	})
	return f
}

// openNetworkField has had one cell.
func openNetworkField(t *testing.T, host, runDir string) networkField {
	t.Helper()
	l, err := answering(host)
	if err != nil {
		t.Fatal(err)
	}
	service, options := network.New(network.Options{}), optionsIn(runDir, ahead)
	options.Network = service
	driver := cell.New(options)
	f := networkField{driver, l.Addr().String(), func() error { return errors.Join(driver.Close(context.Background()), service.Close(), l.Close()) }}
	if err := networkedLife(t.Context(), driver, f.server); err != nil {
		t.Fatal(errors.Join(err, f.close()))
	}
	return f
}

func TestNetworksAtOnce(t *testing.T) {
	f := newNetworkField(t)
	held, began, count := gatewayDescriptors(t), time.Now(), enoughNetworks(500)
	alive := make([]sandbox.Instance, count)
	spread(count, func(n int) {
		var err error
		if alive[n], err = f.driver.Create(t.Context(), reaching(f.server)); err != nil {
			t.Errorf("cell %d: %v", n, err)
			return
		}
		if err := request(t.Context(), alive[n], f.server); err != nil {
			t.Errorf("cell %d: %v", n, err)
		}
	})
	t.Logf("%d cells on networks alive after %v", count, time.Since(began).Round(time.Millisecond))
	if !t.Failed() {
		spread(count, func(n int) {
			if err := request(t.Context(), alive[n], f.server); err != nil {
				t.Errorf("cell %d beside all others: %v", n, err)
			}
		})
	}
	spread(count, func(n int) {
		if alive[n] != nil {
			destroy(t, alive[n])
		}
	})
	wantDescriptors(t, held)
}

func TestNetworksInTurn(t *testing.T) {
	f := newNetworkField(t)
	held, began, count := gatewayDescriptors(t), time.Now(), enoughNetworks(10_000)
	spread(count, func(n int) {
		if t.Failed() {
			return
		}
		if err := networkedLife(t.Context(), f.driver, f.server); err != nil {
			t.Errorf("cell %d: %v", n, err)
		}
	})
	took := time.Since(began)
	t.Logf("%d cells on networks lived in %v: %.0f in a second", count, took.Round(time.Millisecond), float64(count)/took.Seconds())
	wantDescriptors(t, held)
}

// enoughNetworks is a fiftieth of a soak's count elsewhere.
func enoughNetworks(full int) int { return soak.Count(full/50, full) }

// networkChurnRole is a program that makes and ends cells on networks until it is killed.
const networkChurnRole = "churn-networks"

func init() { roles[networkChurnRole] = networkChurn }

func networkChurn() error {
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(os.Getenv(churnMark)), 0); err != nil {
		return err
	}
	host, err := networktest.FindAddress()
	if err != nil {
		return err
	}
	l, err := answering(host)
	if err != nil {
		return err
	}
	driver := cell.New(cell.Options{RunDir: os.Getenv(churnRunDir), Ahead: 4, Network: network.New(network.Options{}),
		Images: func() (*image.Store, error) { return image.Open(os.Getenv(churnStore)) }})
	failures := make([]error, churnWorkers)
	var workers sync.WaitGroup
	for n := range churnWorkers {
		workers.Go(func() {
			for failures[n] == nil {
				failures[n] = networkedLife(context.Background(), driver, l.Addr().String())
			}
		})
	}
	workers.Wait()
	return errors.Join(failures...)
}

// TestNetworksKilledAtAnyMoment: the gateways end with who owns them, and with both every
// device.
func TestNetworksKilledAtAnyMoment(t *testing.T) {
	need(t, "bash")
	networktest.HostAddress(t)                                // or it is skipped
	if err := life(t.Context(), firstDriver(t)); err != nil { // makes the image
		t.Fatal(err)
	}
	seed, rounds, latest := rand.Uint64(), soak.Count(10, 100), 300*time.Millisecond
	moments := rand.New(rand.NewPCG(seed, 0))
	before, outside := takeCensus(t, t.TempDir()), hostNetwork(t)
	first, alive := leaktest.FreeMarks(t, 100, 1000, rounds), 0
	var all []victim
	for n := range rounds {
		v := victim{role: networkChurnRole, mark: strconv.Itoa(first + n), runDir: filepath.Join(t.TempDir(), "run"), after: time.Duration(moments.Int64N(int64(latest)))}
		if n == 0 {
			v.until = 2 // the gateways and a cell
		}
		if v.die(t) > 0 {
			alive++
		}
		all = append(all, v)
	}
	t.Logf("%d programs killed, seed %d: %d had children", rounds, seed, alive)
	wantNoOrphans(t, all)
	for n, v := range all {
		v.wantReaped(t, n%2 == 0)
	}
	if alive == 0 {
		t.Error("no program was killed while it had cells")
	}
	if grown := newIn(before.Mounts, takeCensus(t, t.TempDir()).Mounts); len(grown) > 0 {
		t.Errorf("mounts are left: %q", grown)
	}
	wantNetwork(t, outside)
}
