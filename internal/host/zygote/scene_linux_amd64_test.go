package zygote

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"aether/internal/host/checkpoint"
	"aether/internal/host/confine"
	"aether/internal/host/spawn"
	"aether/internal/unprivtest"

	"golang.org/x/sys/unix"
)

// noticeWithin is how soon a failure must be noticed: sooner than what is waited for
// whoever does not come.
const noticeWithin = 25 * time.Second

// patience is how long a child may take to answer, on a machine whose processors others have.
const patience = 2 * time.Minute

// TestAgainAsOrdinaryUser runs the tests as an ordinary user too.
func TestAgainAsOrdinaryUser(t *testing.T) { unprivtest.AsOrdinaryUser(t, []string{"-test.short"}) }

var config = confine.Config{Hostname: "cell", Upper: 16 << 20}

// scene is a program in a cell that is forked.
type scene struct {
	host    *confine.Host
	base    *confine.Base
	source  *confine.Cell
	process *spawn.Process
	in      *os.File
	lines   *bufio.Reader
	streams []*checkpoint.Stream // its standard input and output
	answers int
}

// countingProgram answers each line with how many there were, and is in the midst of
// something: another thread counts.
const countingProgram = `
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

func newScene(t *testing.T, program string) *scene {
	t.Helper()
	host, err := confine.Open(confine.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.Close)
	s := &scene{host: host}
	if s.base, err = host.Prepare(hostTree(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.base.Close() })
	s.source = s.boot(t)
	t.Cleanup(func() { endCell(t, s.source) })
	s.startProgram(t, program)
	return s
}

// hostTree is a bare root over this machine's /usr.
func hostTree(t *testing.T) confine.Tree {
	t.Helper()
	layer := t.TempDir()
	if err := os.Chmod(layer, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"dev", "proc", "tmp", "usr", "etc"} {
		if err := os.Mkdir(filepath.Join(layer, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+link, filepath.Join(layer, link)); err != nil {
			t.Fatal(err)
		}
	}
	return confine.Tree{Layers: []string{layer}, Binds: []confine.Bind{{Source: "/usr", Target: "/usr"}}}
}

func (s *scene) boot(t *testing.T) *confine.Cell {
	t.Helper()
	cell, err := s.base.Boot(config)
	if err != nil {
		t.Fatal(err)
	}
	return cell
}

func endCell(t *testing.T, cell *confine.Cell) {
	t.Helper()
	err := cell.Kill()
	_, waited := cell.Wait()
	if err := errors.Join(err, waited); err != nil {
		t.Error(err)
	}
}

func (s *scene) startProgram(t *testing.T, program string) {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { errors.Join(inW.Close(), outR.Close()) })
	s.process, _, err = s.source.Exec(confine.Command{Path: "/usr/bin/python3", Args: []string{"python3", "-c", program}, Env: []string{"PATH=/bin"},
		Dir: "/tmp", UID: confine.UserID, GID: confine.UserID, Stdin: inR, Stdout: outW, Stderr: outW, Group: config.Group})
	if err := errors.Join(err, inR.Close(), outW.Close()); err != nil {
		t.Fatal(err)
	}
	go s.process.Wait()
	for _, f := range []*os.File{inW, outR} {
		stream, err := checkpoint.ReadStream(f, false)
		if err != nil {
			t.Fatal(err)
		}
		s.streams = append(s.streams, stream)
	}
	s.in, s.lines = inW, bufio.NewReader(outR)
	if line, err := s.lines.ReadString('\n'); err != nil || line != "primed\n" {
		t.Fatalf("it said %q, %v", line, err)
	}
}

// take takes a checkpoint of the program.
func (s *scene) take(last *Tree) (*Tree, error) {
	return Take(s.host, s.source, []checkpoint.Running{{PID: s.process.Pid(), Parent: -1}}, last, func() error { return nil })
}

// child makes a child, has it answer, and ends it.
func (s *scene) child(t *testing.T, tree *Tree) error {
	t.Helper()
	cell := s.boot(t)
	defer endCell(t, cell)
	return s.childIn(t, tree, cell)
}

func (s *scene) childIn(t *testing.T, tree *Tree, cell *confine.Cell) error {
	t.Helper()
	restored, err := tree.Restore(confine.Joining{Cell: cell, Group: config.Group}, s.streams)
	if err != nil {
		return err
	}
	p, in, out := restored.Forks[0], restored.Outside[s.streams[0]], restored.Outside[s.streams[1]]
	defer func() { errors.Join(in.Close(), out.Close(), p.Signal(unix.SIGKILL)); p.Wait() }()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid()))
	if err != nil || !strings.Contains(string(text), "Seccomp:\t2\n") || !strings.Contains(string(text), "CapEff:\t0000000000000000\n") {
		t.Errorf("the child is not confined: %s, %v", text, err)
	}
	if child, source := turnOf(t, p.Pid()), turnOf(t, s.process.Pid()); child != source && failSteps == nil {
		t.Errorf("a turn of the child takes %v, of the source %v", child, source)
	}
	fmt.Fprintln(in, "child")
	out.SetReadDeadline(time.Now().Add(patience))
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != fmt.Sprintln(s.answers) {
		t.Errorf("the child said %q, not %d: %v", line, s.answers, err)
	}
	return nil
}

// say has the source answer.
func (s *scene) say(t *testing.T, what string) {
	t.Helper()
	fmt.Fprintln(s.in, what)
	if line, err := s.lines.ReadString('\n'); err != nil || line != fmt.Sprintln(s.answers) {
		t.Errorf("the source said %q, not %d: %v", line, s.answers, err)
	}
	s.answers++
}

// warm is the warm fork of the program's zygote, once it is made.
func warm(tree *Tree) *warmFork {
	tree.zygotes[0].lock()
	defer tree.zygotes[0].mu.Unlock()
	return tree.zygotes[0].warm
}

func prepareWarm(t *testing.T, tree *Tree) {
	tree.PrepareWarm(slog.New(slog.NewTextHandler(t.Output(), nil)))
}

func (s *scene) threads(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", s.process.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// unharmed looks at the source, and for what is left of zygotes and children.
func (s *scene) unharmed(t *testing.T, threads []string) {
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
	s.say(t, "source")
	left := leftovers(t)
	for end := time.Now().Add(patience); len(left) > 0 && time.Now().Before(end); left = leftovers(t) {
		time.Sleep(time.Millisecond) // some are reaped in the background
	}
	for _, process := range left {
		t.Errorf("process %s is left", process)
	}
}

// leftovers lists children of this program that are zygotes, or dead.
func leftovers(t *testing.T) (list []string) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		before, after, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(after) // state, parent
		if len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) && (fields[0] == "Z" || strings.Contains(before, "aether-zygote")) {
			list = append(list, before+")")
		}
	}
	return list
}
