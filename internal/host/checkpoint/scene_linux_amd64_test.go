package checkpoint_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"aether/internal/host/cgroup"
	"aether/internal/host/checkpoint"
	"aether/internal/host/confine"
	"aether/internal/host/zygote"
)

// scene is a host for cells.
type scene struct {
	host *confine.Host
	base *confine.Base
}

// newScene needs root: an ordinary user can carry over less.
func newScene(t *testing.T) *scene {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can fork everything that a process may hold")
	}
	host, err := confine.Open(confine.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.Close)
	base, err := host.Prepare(hostTree(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { base.Close() })
	return &scene{host, base}
}

// hostTree is a bare root over this machine's /usr.
func hostTree(t *testing.T) confine.Tree {
	t.Helper()
	layer := t.TempDir()
	err := os.Chmod(layer, 0o755)
	for _, dir := range []string{"dev", "proc", "tmp", "usr", "etc"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(layer, dir), 0o755))
	}
	for _, link := range []string{"bin", "sbin", "lib", "lib64"} {
		err = errors.Join(err, os.Symlink("usr/"+link, filepath.Join(layer, link)))
	}
	if err = errors.Join(err, os.Chmod(filepath.Join(layer, "tmp"), 0o1777)); err != nil {
		t.Fatal(err)
	}
	return confine.Tree{Layers: []string{layer}, Binds: []confine.Bind{{Source: "/usr", Target: "/usr"}}}
}

var noGroup cgroup.Way

// boot makes a cell.
func (s *scene) boot(t *testing.T) *confine.Cell {
	t.Helper()
	cell, err := s.base.Boot(confine.Config{Hostname: "cell", Upper: 64 << 20, Group: noGroup})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := cell.Kill()
		if _, waited := cell.Wait(); errors.Join(err, waited) != nil {
			t.Error(err, waited)
		}
	})
	return cell
}

// program is one in a cell that is spoken to line by line.
type program struct {
	cell    *confine.Cell
	pid     int
	in      *os.File
	lines   *bufio.Reader
	streams []*checkpoint.Stream // its standard input and output
}

// start starts a python program in a cell of its own.
func (s *scene) start(t *testing.T, text string) *program {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cell := s.boot(t)
	p, _, err := cell.Exec(confine.Command{Path: "/usr/bin/python3", Args: []string{"python3", "-c", text}, Env: []string{"PATH=/bin"}, Dir: "/tmp",
		UID: confine.UserID, GID: confine.UserID, Stdin: inR, Stdout: outW, Stderr: outW, Group: noGroup})
	if err := errors.Join(err, inR.Close(), outW.Close()); err != nil {
		t.Fatal(err)
	}
	reap(t, p.Wait)
	program := newProgram(t, cell, p.Pid(), inW, outR)
	program.hear(t, "primed")
	return program
}

func newProgram(t *testing.T, cell *confine.Cell, pid int, in, out *os.File) *program {
	t.Helper()
	t.Cleanup(func() { errors.Join(in.Close(), out.Close()) })
	p := &program{cell: cell, pid: pid, in: in, lines: bufio.NewReader(out)}
	for _, f := range []*os.File{in, out} {
		stream, err := checkpoint.ReadStream(f, false)
		if err != nil {
			t.Fatal(err)
		}
		p.streams = append(p.streams, stream)
	}
	return p
}

// reap waits for a process in the background: its cell does not end before.
func reap[T any](t *testing.T, wait func() (T, error)) {
	var done sync.WaitGroup
	done.Go(func() { wait() })
	t.Cleanup(done.Wait)
}

func (p *program) hear(t *testing.T, want string) {
	t.Helper()
	heard := make(chan string, 1)
	go func() {
		line, err := p.lines.ReadString('\n')
		if err != nil {
			line += err.Error()
		}
		heard <- line
	}()
	select {
	case line := <-heard:
		if line != want+"\n" {
			t.Fatalf("heard %q, want %q", line, want)
		}
	case <-time.After(patience()):
		t.Fatalf("heard nothing, want %q", want)
	}
}

// patience is five minutes, or so many times half a minute on machines that are known to be slow.
func patience() time.Duration {
	pace, err := strconv.Atoi(os.Getenv("AETHER_TEST_PACE"))
	if err != nil {
		pace = 1
	}
	return max(time.Duration(pace)*30*time.Second, 5*time.Minute)
}

func (p *program) say(t *testing.T) {
	t.Helper()
	if _, err := fmt.Fprintln(p.in, "?"); err != nil {
		t.Fatal(err)
	}
}

// take takes a checkpoint of all processes of the program's cell, whose files it
// brings into another.
func (p *program) take(t *testing.T, s *scene, to *confine.Cell) (*zygote.Tree, error) {
	t.Helper()
	list, err := running(nil, p.pid, -1)
	if err != nil {
		t.Fatal(err)
	}
	return zygote.Take(s.host, p.cell, list, nil, func() error {
		if to == nil {
			return nil
		}
		return to.TakeWrites(context.Background(), p.cell)
	})
}

// running appends a process and all that it has started, parents first.
func running(list []checkpoint.Running, pid, parent int) ([]checkpoint.Running, error) {
	place := len(list)
	list = append(list, checkpoint.Running{PID: pid, Parent: parent})
	children, err := checkpoint.Children(pid)
	for _, child := range children {
		if err == nil {
			list, err = running(list, child, place)
		}
	}
	return list, err
}

// restore has a checkpoint of the program go on in a cell.
func (p *program) restore(t *testing.T, tree *zygote.Tree, cell *confine.Cell) (*program, error) {
	t.Helper()
	restored, err := tree.Restore(confine.Joining{Cell: cell, Group: noGroup}, p.streams)
	if err != nil {
		return nil, err
	}
	fork := restored.Forks[0]
	reap(t, fork.Wait)
	return newProgram(t, cell, fork.Pid(), restored.Outside[p.streams[0]], restored.Outside[p.streams[1]]), nil
}

// fork forks the program's cell once.
func (p *program) fork(t *testing.T, s *scene) (*program, error) {
	t.Helper()
	cell := s.boot(t)
	tree, err := p.take(t, s, cell)
	if err != nil {
		return nil, err
	}
	child, err := p.restore(t, tree, cell)
	return child, errors.Join(err, tree.Close())
}

// encode checkpoints the program's cell to files, whose copies it gives with the
// image, and its writes to another cell.
func (p *program) encode(t *testing.T, s *scene, to *confine.Cell) (*checkpoint.Image, checkpoint.Files, error) {
	t.Helper()
	dir := t.TempDir()
	create := func(name string) (*os.File, error) { return os.Create(filepath.Join(dir, name)) }
	open := func(name string) (*os.File, error) { return os.Open(filepath.Join(dir, name)) }
	stamps := map[string]checkpoint.Stamp{}
	list, err := running(nil, p.pid, -1)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := zygote.Take(s.host, p.cell, list, nil, func() error { return errors.Join(p.stamp(list, stamps), to.TakeWrites(context.Background(), p.cell)) })
	if err != nil {
		return nil, nil, err
	}
	image, err := tree.Encode(create, stamps, 0)
	return image, open, errors.Join(err, tree.Close())
}
