package cell_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/sandbox"
)

// vacantCell is a cell that has waited for its first command for so long that it has
// neither groups nor a net namespace.
func vacantCell(t *testing.T, driver sandbox.Driver, spec sandbox.Spec) sandbox.Instance {
	t.Helper()
	instance := create(t, driver, spec)
	if !eventually(10*time.Second, func() bool { return cell.IsVacant(instance) }) {
		t.Fatal("it keeps its place")
	}
	return instance
}

// placesDriver makes cells that give their places away at once.
func placesDriver(t *testing.T) sandbox.Driver {
	t.Helper()
	needRoot(t, "net namespaces that outlive their cells")
	cell.WaitForFirst(t, time.Millisecond)
	driver, _ := newDriverAhead(t, 2)
	for range 2 { // from the second on, others are made ahead
		create(t, driver, sandbox.Spec{})
	}
	return driver
}

// TestVacantCellIsWhatItWas: a cell that gave its groups and its net namespace away can
// do all that it could, within the limits that it was made with.
func TestVacantCellIsWhatItWas(t *testing.T) {
	driver := placesDriver(t)
	limits := sandbox.Limits{MemoryBytes: 32 << 20, Processes: 20, CPUs: 1}
	for name, use := range map[string]func(t *testing.T, instance sandbox.Instance){
		"memory is limited": func(t *testing.T, instance sandbox.Instance) {
			if got, err := try(t.Context(), client(t, instance), hungry); err != nil || !got.OutOfMemory {
				t.Errorf("%+v, %v", got.Status, err)
			}
		},
		"processes are limited": func(t *testing.T, instance sandbox.Instance) {
			out, err := try(t.Context(), client(t, instance), shell("for i in $(seq 40); do sleep 100 >/dev/null 2>&1 & done"))
			stats, failed := instance.Stats(t.Context())
			if err := errors.Join(err, failed); err != nil || *stats.Processes < limits.Processes/2 || *stats.Processes > limits.Processes || *stats.ForksDenied == 0 {
				t.Errorf("%d processes, limit %d, %d denied: %v, %v", *stats.Processes, limits.Processes, *stats.ForksDenied, out, err)
			}
		},
		"it is counted": func(t *testing.T, instance sandbox.Instance) {
			sleeper := start(t, instance, "exec sleep 1000")
			if !eventually(10*time.Second, func() bool { return population(t, instance) == 2 }) { // with PID 1
				t.Errorf("there are %d processes", population(t, instance))
			}
			if err := sleeper.Signal(t.Context(), syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		},
		"pause": func(t *testing.T, instance sandbox.Instance) {
			pauser := instance.(sandbox.Pauser)
			if err := pauser.Pause(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := pauser.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			sh(t, instance, "true")
		},
		"fork": func(t *testing.T, instance sandbox.Instance) {
			for _, child := range forkInto(t, instance, sandbox.Spec{}, sandbox.Spec{}) {
				sh(t, child, "true")
			}
			sh(t, instance, "true")
		},
		"end": func(*testing.T, sandbox.Instance) {},
	} {
		t.Run(name, func(t *testing.T) {
			instance := vacantCell(t, driver, sandbox.Spec{Limits: limits})
			before, err := instance.Stats(t.Context())
			if err != nil || *before.Processes != 1 || *before.MemoryBytes != 0 || *before.OOMKills != 0 || *before.ForksDenied != 0 {
				t.Errorf("nobody uses %+v, %v", before, err)
			}
			use(t, instance)
		})
	}
}

// TestPlaceIsOneCells: cells that had no net namespace have one each when something runs in
// them, which is neither the host's nor that of a PID 1, and theirs until they end.
func TestPlaceIsOneCells(t *testing.T) {
	driver := placesDriver(t)
	namespace := func(instance sandbox.Instance) string { return sh(t, instance, "readlink /proc/self/ns/net") }
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", initOf(t)))
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	seen := []string{own, host}
	for range 3 {
		instance := vacantCell(t, driver, sandbox.Spec{})
		first := namespace(instance)
		if slices.Contains(seen, first) {
			t.Errorf("%s is one of %v", first, seen)
		}
		seen = append(seen, first)
		time.Sleep(50 * time.Millisecond) // it gives no place away any more
		if again := namespace(instance); again != first || cell.IsVacant(instance) {
			t.Errorf("first %s, then %s", first, again)
		}
	}
}

// TestPID1ShowsNoNetwork: what a cell sees of the net namespace that its PID 1 shares with
// others is a loopback that is down, and nobody's sockets.
func TestPID1ShowsNoNetwork(t *testing.T) {
	need(t, "python3")
	driver := placesDriver(t)
	instance := vacantCell(t, driver, sandbox.Spec{})
	other := vacantCell(t, driver, sandbox.Spec{})
	start(t, other, "exec python3 -c 'import socket,time; s=socket.socket(socket.AF_UNIX); s.bind(\"\\0shared\"); s.listen(); time.sleep(1000)'")
	if !eventually(10*time.Second, func() bool { return sh(t, other, "grep -c @shared /proc/net/unix || true") == "1" }) {
		t.Fatal("nobody listens in the other cell")
	}
	const up = "grep -c 127.0.0.1 %s/net/fib_trie >/dev/null && echo up || echo down"
	if own, ones := sh(t, instance, fmt.Sprintf(up, "/proc/self")), sh(t, instance, fmt.Sprintf(up, "/proc/1")); own != "up" || ones != "down" {
		t.Errorf("the loopback of a command is %s, that of PID 1 %s", own, ones)
	}

	out := sh(t, instance, "cat /proc/1/net/unix /proc/1/net/tcp /proc/1/net/route 2>/dev/null | grep -v -e Num -e local_address -e Iface; tail -n +3 /proc/1/net/dev | awk '{print $1 $2}'; readlink /proc/1/ns/net; true")
	if out = strings.TrimSpace(out); out != "" && out != "lo:0" {
		t.Errorf("PID 1 shows %q", out)
	}
}

// TestPlacesUnderUse has commands begin while their cells give their places away.
func TestPlacesUnderUse(t *testing.T) {
	needRoot(t, "net namespaces that outlive their cells")
	const most = 30 * time.Millisecond
	cell.WaitForFirst(t, most/2)
	driver, _ := newDriverAhead(t, 4)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				instance, err := driver.Create(t.Context(), sandbox.Spec{})
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(rand.N(most))
				for range 2 {
					if got, err := try(t.Context(), client(t, instance), shell("cat /proc/net/dev | grep -c lo:")); err != nil || got.stdout != "1\n" {
						t.Errorf("%+v, %v", got, err)
					}
				}
				destroy(t, instance)
			}
		})
	}
	group.Wait()
}
