package confine

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// TestForkFailsAtAnyStep makes every step of a twin's scripts fail in turn. The
// fork is refused, its source goes on as if nothing had been, and nothing is left
// of the child.
func TestForkFailsAtAnyStep(t *testing.T) {
	s, single := newForkScene(t, forkProgram), newForkScene(t, singleProgram)
	total := 0
	for _, script := range []spoiling{
		{"become", 1, s.fork, true, s},
		{"birth", 2, s.fork, true, s},
		// Who cannot have a spare is born without.
		{"spare", 4, s.forkAgain, false, s},
		{"coming of a spare", 5, s.forkAgain, true, s},
		{"birth by a spare", 6, s.forkAgain, true, s},
		{"coming of a spare for one thread", 5, single.forkAgain, true, single},
		{"birth of one thread by a spare", 6, single.forkAgain, true, single},
	} {
		s := script.scene
		if script.place > 3 && s.host.Identity.Single {
			continue // without root all is copied anew, and a spare is of no use
		}
		for step, spoiled := 0, true; spoiled; step++ {
			if testing.Short() {
				step += 9
			}
			spoiled = s.spoil(t, script, step)
			if t.Failed() {
				t.Fatalf("step %d of %s", step, script.name)
			}
			total++
		}
	}
	t.Logf("%d steps failed", total)
}

// spoiling is one of the scripts that are walked in a fork, by its place among
// them, and whether the fork fails if it does.
type spoiling struct {
	name   string
	place  int
	fork   func(*testing.T) error
	matter bool
	scene  *forkScene
}

// forkScene is a program that is forked.
type forkScene struct {
	host    *Host
	base    *Base
	source  *Cell
	process *spawn.Process
	in      *os.File
	lines   *bufio.Reader
	answers int
}

var forkConfig = Config{Hostname: "cell", Upper: 16 << 20, Group: noGroup}

// program answers each line with how many there were, and is in the midst of
// something: another thread counts.
const forkProgram = `
import sys, threading, time
count = 0
def run():
    global count
    while True:
        time.sleep(0.0005)
        count += 1
threading.Thread(target=run, daemon=True).start()
print("primed", flush=True)
for number, line in enumerate(sys.stdin):
    before = count
    while count == before: time.sleep(0.0005)
    print(number, flush=True)
`

// singleProgram does so with one thread, until it is told to have more.
const singleProgram = `
import sys, threading, time
print("primed", flush=True)
for number, line in enumerate(sys.stdin):
    if line == "thread\n": threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    print(number, flush=True)
`

func newForkScene(t *testing.T, program string) *forkScene {
	t.Helper()
	s := &forkScene{host: openHost(t)}
	var err error
	if s.base, err = s.host.Prepare(hostTree(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.base.Close() })
	s.source = bootFrom(t, s.base, forkConfig)
	in, out, files := pipes(t)
	s.process, _, err = s.source.Exec(Command{Path: "/usr/bin/python3", Args: []string{"python3", "-c", program}, Env: []string{"PATH=/bin"},
		Dir: "/tmp", UID: UserID, GID: UserID, Stdin: files[0], Stdout: files[1], Stderr: files[1], Group: noGroup})
	if err != nil {
		t.Fatal(err)
	}
	go s.process.Wait()
	s.in, s.lines = in, bufio.NewReader(out)
	if line, err := s.lines.ReadString('\n'); err != nil || line != "primed\n" {
		t.Fatalf("it said %q, %v", line, err)
	}
	return s
}

// spoil makes one step of one of the scripts fail; it says whether there is such
// a step.
func (s *forkScene) spoil(t *testing.T, which spoiling, step int) (found bool) {
	t.Helper()
	threads := s.threads(t)
	walked, matters := 0, true
	s.host.spoil = func(script spoiler) {
		if walked++; walked != which.place {
			return
		}
		// The first steps are those in which the twin waits for scripts.
		const home = 11
		if found = home+step < script.Len(); found {
			matters = script.Spoil(home + step)
		}
	}
	err := which.fork(t)
	s.host.spoil = nil
	if step == 0 && !found {
		t.Errorf("there is no script of %s", which.name)
	}
	switch fails := found && matters && which.matter; {
	case fails && err == nil:
		t.Errorf("step %d of %s fails, and nobody notices", step, which.name)
	case !fails && err != nil:
		t.Errorf("step %d of %s does not matter, but %v", step, which.name, err)
	}
	s.unharmed(t, threads)
	return found
}

// fork forks the program once, and ends the child.
func (s *forkScene) fork(t *testing.T) (err error) {
	t.Helper()
	defer noticed(t, time.Now())
	imprint, err := s.imprint(nil)
	if err != nil {
		return err
	}
	return errors.Join(s.child(t, imprint), imprint.Close())
}

// forkAgain forks it until there is a spare, and then once more when it has gone
// on.
func (s *forkScene) forkAgain(t *testing.T) (err error) {
	t.Helper()
	defer noticed(t, time.Now())
	imprint, err := s.imprint(nil)
	if err != nil {
		return err
	}
	for range 2 {
		if err := s.child(t, imprint); err != nil {
			return errors.Join(err, imprint.Close())
		}
	}
	imprint.StandBy()
	time.Sleep(time.Millisecond) // it counts meanwhile
	if imprint, err = s.imprint(imprint); err != nil {
		return err
	}
	return errors.Join(s.child(t, imprint), imprint.Close())
}

func (s *forkScene) imprint(last *Imprint) (*Imprint, error) {
	return s.source.Imprint([]Running{{s.process.Pid(), -1}}, last, func() error { return nil })
}

// noticed says that a failure was, and not waited out.
func noticed(t *testing.T, began time.Time) {
	t.Helper()
	if took := time.Since(began); took >= handshake {
		t.Errorf("it took %v: a failure was waited out, not noticed", took)
	}
}

// child makes a child of the imprint, and ends it.
func (s *forkScene) child(t *testing.T, imprint *Imprint) error {
	t.Helper()
	child, err := s.base.Boot(forkConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer endCell(t, child)
	return s.childIn(t, imprint, child)
}

func (s *forkScene) childIn(t *testing.T, imprint *Imprint, child *Cell) error {
	t.Helper()
	in, out, files := pipes(t)
	defer in.Close()
	p, err := imprint.Twins[0].Spawn(child, Rebirth{Dir: "/tmp", UID: UserID, GID: UserID, Terminal: -1, Group: noGroup,
		Descriptors: []Descriptor{{Number: 0, File: files[0]}, {Number: 1, File: files[1]}, {Number: 2, File: files[1]}}})
	if err != nil {
		return err
	}
	defer func() { p.Signal(unix.SIGKILL); p.Wait() }()
	if err := imprint.Proceed(); err != nil {
		return err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid()))
	if err != nil || !strings.Contains(string(text), "Seccomp:\t2\n") || !strings.Contains(string(text), "CapEff:\t0000000000000000\n") {
		t.Errorf("the child is not confined: %s, %v", text, err)
	}
	fmt.Fprintln(in, "child")
	out.SetReadDeadline(time.Now().Add(handshake))
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != fmt.Sprintln(s.answers) {
		t.Errorf("the child said %q, not %d: %v", line, s.answers, err)
	}
	return nil
}

func (s *forkScene) threads(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", s.process.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// unharmed looks at the source, and for what is left of twins and children.
func (s *forkScene) unharmed(t *testing.T, threads []string) {
	t.Helper()
	if now := s.threads(t); !slices.Equal(now, threads) {
		t.Errorf("its threads were %q and are %q", threads, now)
	}
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil || !strings.Contains(string(text), "TracerPid:\t0\n") {
			t.Errorf("%s is traced (%v)", thread, err)
		}
	}
	s.ask(t)
	for _, p := range others() {
		if name := p.text("comm"); strings.Contains(name, "aether-twin") || processState(p.pid) == "Z" && parentOf(p) == os.Getpid() {
			t.Errorf("process %d (%s) is left", p.pid, strings.TrimSpace(name))
		}
	}
}

func parentOf(p proc) (parent int) {
	_, rest, _ := strings.Cut(p.text("stat"), ") ")
	var state string
	fmt.Sscan(rest, &state, &parent)
	return parent
}
