package confine

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Who stands by in these tests does so for as long as a busy host takes.
func init() { tired = time.Hour }

// readyCell is one whose next command has somebody standing by.
func readyCell(t *testing.T, config Config) *Cell {
	t.Helper()
	if currentIdentity().Single {
		t.Skip("nobody stands by for the cells of an ordinary user")
	}
	base, err := openHost(t).Prepare(hostTree(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { base.Close() })
	config.Hostname, config.Upper, config.Ready, config.Group = "cell", 16<<20, true, noGroup
	warm, err := base.NewWarmCell(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := warm.Ready(); err != nil {
		t.Fatal(err)
	}
	cell, err := warm.Boot(config.Hostname, config.Processes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cell.Kill(); cell.Wait() })
	return cell
}

// standsBy waits for a pre-joined process of that user.
func (c *Cell) standsBy(t *testing.T, uid uint32) (e *prejoined) {
	t.Helper()
	await(t, "somebody to stand by", func() bool {
		c.readiness.mu.Lock()
		defer c.readiness.mu.Unlock()
		e = c.readiness.next
		return e != nil && e.who.uid == uid
	})
	return e
}

func TestCommandsThroughAPrejoinedProcess(t *testing.T) {
	cell := readyCell(t, Config{})
	for i := range 5 {
		first := cell.standsBy(t, UserID)
		out, code := sh(t, cell, fmt.Sprintf("id -u; pwd; umask; ls /proc/self/fd | wc -l; grep -E 'CapBnd|NoNew|Seccomp:' /proc/self/status | tr -d '\\t\\n'; exit %d", i))
		want := "1000\n/tmp\n0022\n4\nCapBnd:0000000000000000NoNewPrivs:1Seccomp:2"
		if out != want || code != i {
			t.Errorf("command %d: code %d, output %q", i, code, out)
		}
		if cell.standsBy(t, UserID) == first {
			t.Error("a pre-joined process serves twice")
		}
	}
}

func TestAnotherUserNeedsAnotherProcess(t *testing.T) {
	cell := readyCell(t, Config{})
	cell.standsBy(t, UserID)
	p, _, err := cell.Exec(Command{Path: "/bin/sh", Args: []string{"sh", "-c", "exit $(id -u)"}, Env: []string{"PATH=/bin"}, Dir: "/", UID: 7, GID: 7, Group: noGroup})
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := p.Wait(); status.Code != 7 {
		t.Errorf("status %+v", status)
	}
	cell.standsBy(t, 7)
}

func TestAPrejoinedProcessReportsFailures(t *testing.T) {
	cell := readyCell(t, Config{})
	for range 3 {
		cell.standsBy(t, UserID)
		_, _, err := cell.Exec(Command{Path: "/no/such/program", Args: []string{"x"}, Dir: "/", UID: UserID, GID: UserID, Group: noGroup})
		if err == nil || !strings.Contains(err.Error(), "/no/such/program") {
			t.Errorf("got %v", err)
		}
		if out, _ := sh(t, cell, "echo fine"); out != "fine" {
			t.Errorf("the next command says %q", out)
		}
	}
}

func TestAPrejoinedProcessEndsWithItsCell(t *testing.T) {
	cell := readyCell(t, Config{})
	e := cell.standsBy(t, UserID)
	cell.Kill()
	cell.Wait()
	if err := e.started.Process().Signal(0); err == nil {
		t.Error("the pre-joined process lives on")
	}
	if cell.readiness.next != nil {
		t.Error("somebody stands by for a dead cell")
	}
}

// TestAPrejoinedProcessIsInvisible has a command look around, and kill all that it can,
// while somebody stands by.
func TestAPrejoinedProcessIsInvisible(t *testing.T) {
	cell := readyCell(t, Config{})
	for _, uid := range []uint32{UserID, 0} {
		if err := errors.Join(cell.dismiss(), cell.ready(credentials{uid: uid, gid: uid})); err != nil {
			t.Fatal(err)
		}
		e := cell.standsBy(t, uid)
		await(t, "it to be there", func() bool { return processState(e.started.Pid()) == "S" })
		p, _, err := cell.execAnew(Command{Path: "/bin/sh", Args: []string{"sh", "-c", "kill -9 -1; set -- /proc/[0-9]*; exit $#"},
			Dir: "/", UID: uid, GID: uid, Group: noGroup})
		if err != nil {
			t.Fatal(err)
		}
		if status, err := p.Wait(); err != nil || status.Code != 2 {
			t.Errorf("user %d: %+v (%v), not PID 1 and itself", uid, status, err)
		}
		if state := processState(e.started.Pid()); state != "S" {
			t.Errorf("user %d: who stands by is in state %q", uid, state)
		}
	}
}

// TestADeadPrejoinedProcessIsNoFailure kills who stands by: the command then comes in
// without him.
func TestADeadPrejoinedProcessIsNoFailure(t *testing.T) {
	cell := readyCell(t, Config{})
	for range 3 {
		if err := cell.standsBy(t, UserID).started.Process().Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if out, code := sh(t, cell, "echo fine"); out != "fine" || code != 0 {
			t.Errorf("the command says %q, code %d", out, code)
		}
	}
}

// TestNobodyStandsByForAnEndedCell ends cells while the next pre-joined process is made.
func TestNobodyStandsByForAnEndedCell(t *testing.T) {
	for i := range 20 {
		cell := readyCell(t, Config{})
		sh(t, cell, "true")
		time.Sleep(refill + time.Duration(i-10)*50*time.Microsecond)
		endCell(t, cell)
		time.Sleep(2 * refill)
		if cell.readiness.next != nil {
			t.Fatal("somebody stands by")
		}
	}
}

// TestBlank gives cells that were made ahead their names.
func TestBlank(t *testing.T) {
	base, err := openHost(t).Prepare(hostTree(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { base.Close() })
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		warm, err := base.NewWarmCell(Config{Upper: 1 << 20, Group: noGroup})
		if err != nil {
			t.Fatal(err)
		}
		cell, err := warm.Boot(name, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { endCell(t, cell) })
		if out, _ := sh(t, cell, "uname -n"); out != name {
			t.Errorf("the cell %s has the name %q", name, out)
		}
	}
	if now, err := os.Hostname(); err != nil || now != own {
		t.Errorf("the host's name became %q (%v)", now, err)
	}
	unused, err := base.NewWarmCell(Config{Upper: 1 << 20, Group: noGroup})
	if err != nil {
		t.Fatal(err)
	}
	if err := unused.Discard(); err != nil {
		t.Error(err)
	}
}

func TestNobodyStandsByForEver(t *testing.T) {
	was := tired
	tired = 50 * time.Millisecond
	t.Cleanup(func() { tired = was })
	cell := readyCell(t, Config{})
	await(t, "who stands by to go", func() bool {
		cell.readiness.mu.Lock()
		defer cell.readiness.mu.Unlock()
		return cell.readiness.next == nil
	})
	if out, code := sh(t, cell, "echo late"); out != "late" || code != 0 {
		t.Errorf("%q, %d", out, code)
	}
}
