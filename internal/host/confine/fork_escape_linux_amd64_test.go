package confine

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// launcher becomes the program that a line of JSON names.
const launcher = `
import sys, os, json
print("primed", flush=True)
spec = json.loads(sys.stdin.readline())
os.dup2(3, 0); os.close(3)  # what commands without input have
os.execve(spec["path"], spec["args"], spec["env"])
`

// TestEscapeFromFork makes every attack from a process that was forked into its
// cell: it is confined as one that was started there.
func TestEscapeFromFork(t *testing.T) {
	s := newScene(t)
	for _, who := range s.whos() {
		for _, way := range []string{"", "by a spare/"} {
			imprint := s.launcher(t, who)
			boot := func(t *testing.T) *Cell { return s.boot(t) }
			if way != "" {
				boot = func(t *testing.T) *Cell { return s.spareFor(t, imprint, who) }
			}
			s.escape(t, imprint, who, way, boot)
		}
	}
}

func (s *scene) escape(t *testing.T, imprint *Imprint, who who, way string, boot func(*testing.T) *Cell) {
	for _, a := range attacks {
		t.Run(who.name+"/"+way+a.name, func(t *testing.T) {
			cell := boot(t)
			out, status := s.launch(t, imprint, cell, a.name, who)
			if status.Code != 0 || status.Signal != 0 {
				t.Fatalf("%+v: %s", status, out)
			}
			s.compare(t, who.name, a.trials(s.facts), parseAnswers(t, out))
			s.untouched(t, cell)
		})
	}
	t.Run(who.name+"/"+way+"abi", func(t *testing.T) {
		if out, status := s.launch(t, imprint, boot(t), "abi", who); status.Signal != unix.SIGSYS {
			t.Errorf("a 32-bit system call: %+v, %q", status, out)
		}
	})
}

// spareFor boots a cell into which a spare has come for the next child.
func (s *scene) spareFor(t *testing.T, imprint *Imprint, who who) *Cell {
	t.Helper()
	twin := imprint.Twins[0]
	for twin.children < 2 {
		s.launch(t, imprint, s.boot(t), "abi", who)
	}
	imprint.StandBy()
	cell := s.boot(t)
	if err := errors.Join(imprint.Expect(cell, noGroup), twin.Arrived()); err != nil {
		t.Fatal(err)
	}
	if twin.spare == nil {
		t.Fatal("there is none")
	}
	return cell
}

// launcher gives an imprint of a program that can become any other.
func (s *scene) launcher(t *testing.T, who who) *Imprint {
	t.Helper()
	source := s.boot(t)
	_, out, files := pipes(t)
	p, _, err := source.Exec(Command{Path: "/usr/bin/python3", Args: []string{"python3", "-c", launcher}, Env: []string{"PATH=/bin"},
		Dir: "/tmp", UID: who.id, GID: who.id, Stdin: files[0], Stdout: files[1], Stderr: files[1], Group: noGroup})
	if err != nil {
		t.Fatal(err)
	}
	go p.Wait()
	if line := line(t, out); line != "primed" {
		t.Fatalf("it said %q", line)
	}
	imprint, err := source.Imprint([]Running{{p.Pid(), -1}}, nil, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := imprint.Close(); err != nil {
			t.Error(err)
		}
	})
	return imprint
}

// launch makes an attack in a child of the twin.
func (s *scene) launch(t *testing.T, imprint *Imprint, cell *Cell, name string, who who) (string, spawn.Status) {
	t.Helper()
	in, out, files := pipes(t)
	p, err := imprint.Twins[0].Spawn(cell, Rebirth{Dir: "/tmp", UID: who.id, GID: who.id, Terminal: -1, Group: noGroup,
		Descriptors: []Descriptor{{Number: 0, File: files[0]}, {Number: 1, File: files[1]}, {Number: 2, File: files[1]},
			{Number: 3, File: s.host.null}}})
	if err = errors.Join(err, imprint.Proceed()); err != nil {
		t.Fatal(err)
	}
	known, err := json.Marshal(s.facts)
	if err != nil {
		t.Fatal(err)
	}
	order, err := json.Marshal(map[string]any{"path": attacker, "args": []string{"a-" + name},
		"env": map[string]string{"PATH": "/bin", attackVariable: name, factsVariable: string(known), "GORACE": "atexit_sleep_ms=0"}})
	if err != nil {
		t.Fatal(err)
	}
	files[1].Close() // the child has its own
	if _, err := fmt.Fprintln(in, string(order)); err != nil {
		t.Fatal(err)
	}
	end := time.AfterFunc(20*time.Second, func() { p.Signal(unix.SIGKILL) })
	defer end.Stop()
	text, err := io.ReadAll(out)
	status, waited := p.Wait()
	if err != nil || waited != nil {
		t.Fatal(err, waited)
	}
	return string(text), status
}

func parseAnswers(t *testing.T, out string) map[string]answer {
	t.Helper()
	list := map[string]answer{}
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Logf("it says: %s", lines.Text())
			continue
		}
		list[a.Trial] = a
	}
	return list
}
