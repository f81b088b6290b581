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

	"aether/host/spawn"

	"golang.org/x/sys/unix"
)

// TestForkFailsAtAnyStep makes every step of a twin's scripts fail in turn. The
// fork is refused, its source goes on as if nothing had been, and nothing is left
// of the child.
func TestForkFailsAtAnyStep(t *testing.T) {
	s := newForkScene(t)
	total := 0
	for _, which := range []string{"become", "birth"} {
		for step, spoiled := 0, true; spoiled; step++ {
			if testing.Short() {
				step += 9
			}
			spoiled = s.spoil(t, which, step)
			if t.Failed() {
				t.Fatalf("step %d of %s", step, which)
			}
			total++
		}
	}
	t.Logf("%d steps failed", total)
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

func newForkScene(t *testing.T) *forkScene {
	t.Helper()
	s := &forkScene{host: openHost(t)}
	var err error
	if s.base, err = s.host.Prepare(hostTree(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.base.Close() })
	s.source = bootFrom(t, s.base, forkConfig)
	in, out, files := pipes(t)
	s.process, _, err = s.source.Exec(Command{Path: "/usr/bin/python3", Args: []string{"python3", "-c", forkProgram}, Env: []string{"PATH=/bin"},
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
func (s *forkScene) spoil(t *testing.T, which string, step int) (found bool) {
	t.Helper()
	threads := s.threads(t)
	walked, matters := 0, true
	s.host.spoil = func(script spoiler) {
		if walked++; (walked == 1) != (which == "become") {
			return
		}
		// The first steps are those in which the twin waits for scripts.
		const home = 5
		if found = home+step < script.Len(); found {
			matters = script.Spoil(home + step)
		}
	}
	err := s.fork(t)
	s.host.spoil = nil
	switch {
	case found && matters && err == nil:
		t.Errorf("step %d of %s fails, and nobody notices", step, which)
	case (!found || !matters) && err != nil:
		t.Errorf("step %d of %s does not matter, but %v", step, which, err)
	}
	s.unharmed(t, threads)
	return found
}

// fork forks the program once, and ends the child.
func (s *forkScene) fork(t *testing.T) (err error) {
	t.Helper()
	began := time.Now()
	defer func() {
		if took := time.Since(began); took >= handshake {
			t.Errorf("it took %v: a failure was waited out, not noticed", took)
		}
	}()
	imprint, err := s.source.Imprint([]Running{{s.process.Pid(), -1}}, nil, func() error { return nil })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, imprint.Close()) }()
	child, err := s.base.Boot(forkConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer endCell(t, child)
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
	fmt.Fprintln(s.in, "source")
	if line, err := s.lines.ReadString('\n'); err != nil || line != fmt.Sprintln(s.answers) {
		t.Errorf("the source said %q, not %d: %v", line, s.answers, err)
	}
	s.answers++
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
