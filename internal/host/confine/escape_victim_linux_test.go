package confine

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// victimProcess is a process that must not notice an attack.
type victimProcess struct {
	name string
	out  *os.File
	end  func() error
	wait func() error
}

// startVictims starts one in a cell and one outside of all.
func (s *scene) startVictims(t *testing.T, cell *Cell) []victimProcess {
	t.Helper()
	inside := s.start(t, cell, "victim", who{"user", UserID}, s.facts)
	list := []victimProcess{{"another cell", inside.out, func() error { return inside.Signal(unix.SIGTERM) },
		func() error { <-inside.done; return nil }}, startOutside(t)}
	for _, v := range list {
		if said := line(t, v.out); said != "ready" {
			t.Fatalf("the victim in %s says %q", v.name, said)
		}
	}
	return list
}

func startOutside(t *testing.T) victimProcess {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close() })
	defer write.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), attackVariable+"=victim", factsVariable+"={}")
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return victimProcess{"the host", read, func() error { return cmd.Process.Signal(unix.SIGTERM) }, cmd.Wait}
}

// noticed ends the victims, and gives what each of them noticed.
func noticed(t *testing.T, list []victimProcess) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, v := range list {
		err := v.end()
		text, read := io.ReadAll(v.out)
		things := map[string]bool{}
		for said := range strings.Lines(string(text)) {
			things[strings.TrimSpace(said)] = true
		}
		rounds := 0
		for thing := range things {
			if n, _ := fmt.Sscanf(thing, "rounds %d", &rounds); n == 0 {
				all[v.name] += thing + "; "
			}
		}
		if waited := v.wait(); err != nil || read != nil || waited != nil || rounds == 0 {
			all[v.name] += fmt.Sprintf("it ended with %v, %v, %v after %d rounds", err, read, waited, rounds)
		}
	}
	return all
}

// nobodyNotices uses up things of which there is a number for the host or for a user.
func nobodyNotices(t *testing.T, s *scene) {
	for _, u := range usings() {
		t.Run(u.name, func(t *testing.T) {
			for victim, what := range s.useUp(t, u) {
				if s.host.Identity.Single && u.shared {
					t.Logf("%s noticed, as the same user: %s", victim, what)
					continue
				}
				t.Errorf("%s noticed: %s", victim, what)
			}
		})
	}
}

// useUp has cells take all that they get, and gives what others noticed.
func (s *scene) useUp(t *testing.T, u using) map[string]string {
	t.Helper()
	victims := s.startVictims(t, s.boot(t))
	f := s.facts
	f.Kind = u.name
	for range max(u.cells, 1) {
		cell := s.boot(t, func(c *Config) { c.Upper = 1 << 30 })
		r := s.start(t, cell, "exhaust", who{"user", UserID}, f)
		t.Logf("an attacker has %s", line(t, r.out))
	}
	time.Sleep(100 * time.Millisecond) // some rounds of the victims'
	return noticed(t, victims)
}

// TestVictimsNoticeWeakCells takes away what keeps one cell from using things up.
func TestVictimsNoticeWeakCells(t *testing.T) {
	for _, c := range []struct{ part, kind string }{{partFilter, "asynchronous requests"},
		{partRange, "pages of pipes"}, {partRange, "descriptors on their way"}, {partRange, "inotify instances"}, {partRange, "inotify watches"}} {
		t.Run(c.kind, func(t *testing.T) {
			s := newScene(t, c.part)
			for _, u := range usings() {
				if u.name == c.kind && len(s.useUp(t, u)) == 0 {
					t.Errorf("without %q nobody noticed", c.part)
				}
			}
		})
	}
}
