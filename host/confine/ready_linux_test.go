package confine

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

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
	blank, err := base.Blank(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := blank.Ready(); err != nil {
		t.Fatal(err)
	}
	cell, err := blank.Boot(config.Hostname, config.Processes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cell.Kill(); cell.Wait() })
	return cell
}

// standsBy waits for the next entrant.
func (c *Cell) standsBy() bool {
	for range 500 {
		c.readiness.mu.Lock()
		ready := c.readiness.next != nil
		c.readiness.mu.Unlock()
		if ready {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

func TestCommandsThroughAnEntrant(t *testing.T) {
	cell := readyCell(t, Config{})
	for i := range 5 {
		if !cell.standsBy() {
			t.Fatal("nobody stands by")
		}
		first := cell.readiness.next
		out, code := sh(t, cell, fmt.Sprintf("id -u; pwd; umask; ls /proc/self/fd | wc -l; grep -E 'CapBnd|NoNew|Seccomp:' /proc/self/status | tr -d '\\t\\n'; exit %d", i))
		want := "1000\n/tmp\n0022\n4\nCapBnd:0000000000000000NoNewPrivs:1Seccomp:2"
		if out != want || code != i {
			t.Errorf("command %d: code %d, output %q", i, code, out)
		}
		if cell.standsBy() && cell.readiness.next == first {
			t.Error("an entrant serves twice")
		}
	}
}

func TestAnotherUserNeedsAnotherEntrant(t *testing.T) {
	cell := readyCell(t, Config{})
	if !cell.standsBy() {
		t.Fatal("nobody stands by")
	}
	p, _, err := cell.Exec(Command{Path: "/bin/sh", Args: []string{"sh", "-c", "exit $(id -u)"}, Env: []string{"PATH=/bin"}, Dir: "/", UID: 7, GID: 7, Group: noGroup})
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := p.Wait(); status.Code != 7 {
		t.Errorf("status %+v", status)
	}
	if !cell.standsBy() || cell.readiness.next.who.uid != 7 {
		t.Error("the next entrant is not of the last user")
	}
}

func TestAnEntrantReportsFailures(t *testing.T) {
	cell := readyCell(t, Config{})
	for range 3 {
		if !cell.standsBy() {
			t.Fatal("nobody stands by")
		}
		_, _, err := cell.Exec(Command{Path: "/no/such/program", Args: []string{"x"}, Dir: "/", UID: UserID, GID: UserID, Group: noGroup})
		if err == nil || !strings.Contains(err.Error(), "/no/such/program") {
			t.Errorf("got %v", err)
		}
		if out, _ := sh(t, cell, "echo fine"); out != "fine" {
			t.Errorf("the next command says %q", out)
		}
	}
}

func TestAnEntrantEndsWithItsCell(t *testing.T) {
	cell := readyCell(t, Config{})
	if !cell.standsBy() {
		t.Fatal("nobody stands by")
	}
	e := cell.readiness.next
	cell.Kill()
	cell.Wait()
	if err := e.process.Signal(0); err == nil {
		t.Error("the entrant lives on")
	}
	if cell.readiness.next != nil {
		t.Error("somebody stands by for a dead cell")
	}
}
