package confine

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"aether/internal/host/cgroup"
)

const (
	heldLimit = 64  // megabytes that a cell may have
	heldSlack = 32  // of which some the kernel lets pass, or counts apart (see cgroup.Set)
	heldGoal  = 112 // that the attacker wants
)

// memoryIsBounded has a cell of 64 MiB hold memory of every kind.
func memoryIsBounded(t *testing.T, s *scene) {
	o := owner(t)
	victims := s.startVictims(t, s.boot(t))
	defer func() {
		for victim, what := range noticed(t, victims) {
			t.Errorf("%s noticed: %s", victim, what)
		}
	}()
	for i, h := range holdings() {
		t.Run(h.name, func(t *testing.T) {
			_, attach, err := limited(o, fmt.Sprintf("held-%d", i), cgroup.Limits{Memory: heldLimit << 20})
			if err != nil {
				t.Fatal(err)
			}
			held, killed, text := s.hold(t, h, attach)
			switch {
			case h.open != "":
				t.Logf("%s: nothing bounds it, as SECURITY.md says", text)
			case !killed && held > heldLimit+heldSlack:
				t.Errorf("a cell of %d MiB holds %s", heldLimit, text)
			}
		})
	}
}

// hold has a cell in a group hold memory of one kind, and says how much it had, or
// that it was killed for it.
func (s *scene) hold(t *testing.T, h holding, group cgroup.Way) (held int, killed bool, text string) {
	t.Helper()
	f := s.facts
	f.Limit, f.Kind = heldGoal, h.name
	cell := s.boot(t, func(c *Config) { c.Group, c.Upper = group, 1<<30 })
	out, status := s.run(t, cell, "hold", who{"user", UserID}, f)
	s.untouched(t, cell)
	if status.Signal == syscall.SIGKILL || status.Code != 0 { // Go ends by itself what gets no memory
		return 0, true, out
	}
	if _, err := fmt.Sscan(out, &held); err != nil {
		t.Fatalf("%+v: %.2000q", status, out)
	}
	return held, false, strings.TrimSpace(out)
}

// TestMemoryNoticesWeakCells has cells without limits hold memory: a kind of which
// even they get nothing proves nothing.
func TestMemoryNoticesWeakCells(t *testing.T) {
	s := newScene(t, partRlimits)
	for _, h := range holdings() {
		if h.few {
			continue // the kernel gives no process much of it
		}
		t.Run(h.name, func(t *testing.T) {
			if held, _, text := s.hold(t, h, noGroup); held < heldGoal {
				t.Errorf("without a limit it ended at %.2000q", text)
			}
		})
	}
}

// TestSecurityNamesWhatIsNotBounded: a kind of memory that no limit holds is named
// where users look for it.
func TestSecurityNamesWhatIsNotBounded(t *testing.T) {
	page, err := os.ReadFile("../../../docs/SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(page)), " ")
	for _, h := range holdings() {
		if !strings.Contains(text, h.open) {
			t.Errorf("%s: SECURITY.md does not say %q", h.name, h.open)
		}
	}
}
