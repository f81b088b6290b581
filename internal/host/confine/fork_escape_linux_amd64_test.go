package confine_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"aether/internal/host/checkpoint"
	"aether/internal/host/confine"
	"aether/internal/host/spawn"
	"aether/internal/host/zygote"

	"golang.org/x/sys/unix"
)

// launcher becomes the program that a line of JSON names.
const launcher = `
import sys, os, json
null = os.open("/dev/null", os.O_RDWR)
print("primed", flush=True)
spec = json.loads(sys.stdin.readline())
os.dup2(null, 0); os.close(null)  # what commands without input have
os.execve(spec["path"], spec["args"], spec["env"])
`

// TestEscapeFromFork makes every attack from a process that was forked into its
// cell: it is confined as one that was started there.
func TestEscapeFromFork(t *testing.T) {
	s := confine.NewAttackScene(t)
	for user, id := range s.Users() {
		for _, way := range []string{"", "by a warm fork/"} {
			l := newLauncher(t, s, id)
			boot := s.Boot
			if way != "" {
				boot = l.bootWarm
			}
			for _, attack := range s.Attacks() {
				t.Run(user+"/"+way+attack, func(t *testing.T) {
					cell := boot(t)
					out, status := l.launch(t, cell, attack)
					s.Judge(t, user, attack, out, status, cell)
				})
			}
		}
	}
}

// source is a program that can become any other, and what forks of it are made from.
type source struct {
	scene   confine.AttackScene
	tree    *zygote.Tree
	streams []*checkpoint.Stream // its standard input and output
}

func newLauncher(t *testing.T, s confine.AttackScene, id uint32) *source {
	t.Helper()
	cell := s.Boot(t)
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { errors.Join(inW.Close(), outR.Close()) })
	p, _, err := cell.Exec(confine.Command{Path: "/usr/bin/python3", Args: []string{"python3", "-c", launcher}, Env: []string{"PATH=/bin"},
		Dir: "/tmp", UID: id, GID: id, Stdin: inR, Stdout: outW, Stderr: outW, Group: confine.NoGroup})
	if err := errors.Join(err, inR.Close(), outW.Close()); err != nil {
		t.Fatal(err)
	}
	go p.Wait()
	if line, err := bufio.NewReader(outR).ReadString('\n'); line != "primed\n" {
		t.Fatalf("it said %q (%v)", line, err)
	}
	l := &source{scene: s}
	for _, f := range []*os.File{inW, outR} {
		stream, err := checkpoint.ReadStream(f, false)
		if err != nil {
			t.Fatal(err)
		}
		l.streams = append(l.streams, stream)
	}
	if l.tree, err = zygote.Take(s.Host(), cell, []checkpoint.Running{{PID: p.Pid(), Parent: -1}}, nil, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.tree.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// bootWarm boots a cell which a warm fork has joined for the next child.
func (l *source) bootWarm(t *testing.T) *confine.Cell {
	t.Helper()
	for range 2 { // from the third on there are warm forks
		l.launch(t, l.scene.Boot(t), "abi")
	}
	l.tree.PrepareWarm(slog.New(slog.NewTextHandler(t.Output(), nil)))
	cell := l.scene.Boot(t)
	if n, err := l.tree.Prejoin(confine.Joining{Cell: cell, Group: confine.NoGroup}, true); n != 1 || err != nil {
		t.Fatalf("%d warm forks join it: %v", n, err)
	}
	return cell
}

// launch makes an attack in a child.
func (l *source) launch(t *testing.T, cell *confine.Cell, attack string) (string, spawn.Status) {
	t.Helper()
	restored, err := l.tree.Restore(confine.Joining{Cell: cell, Group: confine.NoGroup}, l.streams)
	if err != nil {
		t.Fatal(err)
	}
	p, in, out := restored.Forks[0], restored.Outside[l.streams[0]], restored.Outside[l.streams[1]]
	defer func() { errors.Join(in.Close(), out.Close()) }()
	if _, err := fmt.Fprintln(in, l.scene.Order(t, attack)); err != nil {
		t.Fatal(err)
	}
	end := time.AfterFunc(2*time.Minute, func() { p.Signal(unix.SIGKILL) })
	defer end.Stop()
	text, err := io.ReadAll(out)
	status, waited := p.Wait()
	if err != nil || waited != nil {
		t.Fatal(err, waited)
	}
	return strings.TrimSpace(string(text)), status
}
