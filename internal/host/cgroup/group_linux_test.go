package cgroup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aether/sandbox"
)

// ready starts a command and waits for its first line of output.
func ready(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("no first line: %v", err)
	}
	return strings.TrimSpace(line)
}

// population waits until the group has settled at a number of processes.
func population(t *testing.T, g *Group, want int64) {
	t.Helper()
	var n int64
	if !eventually(func() bool { n = *stats(t, g).Processes; return n == want }) {
		t.Fatalf("%d processes, want %d", n, want)
	}
}

// entered waits until a command runs its program: before that it may be in some of
// its groups only, and the others could be removed.
func entered(t *testing.T, pid int, program string) {
	t.Helper()
	var name []byte
	if !eventually(func() bool {
		name, _ = os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		return string(name) == program+"\n"
	}) {
		t.Fatalf("process %d runs %q, not %s", pid, name, program)
	}
}

// TestClear: a group in which the program has left processes, and some that are just ending, goes,
// and they go on in another.
func TestClear(t *testing.T) { onEachLayout(t, clears) }

func clears(t *testing.T, o *Owner) {
	from, to := group(t, o, Limits{}), group(t, o, Limits{})
	living, dying := play(t, from, "sleep"), play(t, from, "sleep")
	for _, cmd := range []*exec.Cmd{living, dying} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		entered(t, cmd.Process.Pid, programName(t))
	}
	if err := dying.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	n := from.controlNode()
	if err := n.clear(t.Context(), to.controlNode()); err != nil {
		t.Fatal(err)
	}
	if err := n.rmdir(); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("the group is still there: %v", err)
	}
	if pids, err := to.controlNode().processes(); err != nil || !slices.Contains(pids, living.Process.Pid) {
		t.Errorf("%v, %v: process %d is not among them", pids, err, living.Process.Pid)
	}
}

func TestKillEndsDaemons(t *testing.T) { onEachLayout(t, killEndsDaemons) }

func killEndsDaemons(t *testing.T, o *Owner) {
	for name, kill := range map[string]func(*Group) error{
		"at once": func(g *Group) error { return g.Kill(context.Background()) },
		"one by one": func(g *Group) error {
			n := g.controlNode()
			return n.killEach(context.Background())
		},
		"without freezer": func(g *Group) error {
			n, _ := g.with(Memory)
			return n.killEach(context.Background())
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := group(t, o, Limits{})
			cmd := play(t, g, "daemons")
			ready(t, cmd)
			if n := *stats(t, g).Processes; n < 6 {
				t.Fatalf("only %d processes", n)
			}
			if err := kill(g); err != nil {
				t.Fatal(err)
			}
			if err := g.Remove(context.Background()); err != nil {
				t.Fatal(err)
			}
			if _, err := g.Stats(); sandbox.ClassOf(err) != sandbox.NotFound {
				t.Errorf("stats of a removed group: %v", err)
			}
		})
	}
}

func TestSubKillsOneCommandOnly(t *testing.T) { onEachLayout(t, subKillsOneCommandOnly) }

func subKillsOneCommandOnly(t *testing.T, o *Owner) {
	g := group(t, o, Limits{})
	sub, err := g.Sub("c1")
	if err != nil {
		t.Fatal(err)
	}
	first := play(t, sub, "daemons")
	ready(t, first)
	second, err := command(g, "/bin/sleep", "60")
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	entered(t, second.Process.Pid, "sleep")
	end(t, sub)
	first.Wait()
	population(t, g, 1)
	if err := second.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other command is gone: %v", err)
	}
	if _, err := sub.Sub("deeper"); sandbox.ClassOf(err) != sandbox.Unsupported {
		t.Errorf("a sub of a sub: %v", err)
	}
	end(t, g)
	second.Wait()
}

func TestFreezeStopsTheClock(t *testing.T) { onEachLayout(t, freezeStopsTheClock) }

func freezeStopsTheClock(t *testing.T, o *Owner) {
	g := group(t, o, Limits{})
	cmd := play(t, g, "spin")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	goesOn := func() {
		t.Helper()
		before := *stats(t, g).CPUTime
		if !eventually(func() bool { return *stats(t, g).CPUTime > before+10*time.Millisecond }) {
			t.Fatal("it does not run")
		}
	}
	entered(t, cmd.Process.Pid, programName(t))
	goesOn()
	if err := g.Freeze(context.Background()); err != nil {
		t.Fatal(err)
	}
	before := *stats(t, g).CPUTime
	time.Sleep(200 * time.Millisecond)
	if used := *stats(t, g).CPUTime - before; used > 20*time.Millisecond {
		t.Errorf("a frozen group used %v", used)
	}
	if err := g.Thaw(); err != nil {
		t.Fatal(err)
	}
	goesOn()
	end(t, g)
	cmd.Wait()
}

// programName is what the kernel calls this program.
func programName(t *testing.T) string {
	t.Helper()
	name, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(name))
}

func TestRemoveOfABusyGroup(t *testing.T) { onEachLayout(t, removeOfABusyGroup) }

func removeOfABusyGroup(t *testing.T, o *Owner) {
	g := group(t, o, Limits{})
	cmd, err := command(g, "/bin/sleep", "60")
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	entered(t, cmd.Process.Pid, "sleep")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := g.Remove(ctx); sandbox.ClassOf(err) != sandbox.Timeout {
		t.Errorf("removing a busy group: %v", err)
	}
	// The group stays usable, and removal waits for a process that ends.
	time.AfterFunc(100*time.Millisecond, func() { cmd.Process.Kill(); cmd.Wait() })
	if err := g.Remove(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestCreateRefusesNames(t *testing.T) {
	o := owner(t)
	for _, name := range []string{"", "../x", "a/b", "cgroup.procs", "A", strings.Repeat("a", 200)} {
		if _, err := o.Create(name); sandbox.ClassOf(err) != sandbox.Invalid {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := o.Create("twice"); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Create("twice"); sandbox.ClassOf(err) != sandbox.Conflict {
		t.Errorf("a second one: %v", err)
	}
}

func TestReapAfterSIGKILL(t *testing.T) {
	owner(t) // skips where groups cannot be made
	run := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := exec.Command(self, run)
	program.Env = append(os.Environ(), roleVariable+"=own")
	line := strings.Fields(ready(t, program))
	pid, err := strconv.Atoi(line[0])
	if err != nil {
		t.Fatal(err)
	}

	if n, err := Reap(context.Background(), run); n != 0 || err != nil {
		t.Fatalf("with a living program: %d, %v", n, err)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("reap touched a living program's process: %v", err)
	}
	program.Process.Kill()
	program.Wait()
	if n, err := Reap(context.Background(), run); n != 1 || err != nil {
		t.Fatalf("after its death: %d, %v", n, err)
	}
	for _, dir := range line[1:] {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is left", dir)
		}
	}
	if n, err := Reap(context.Background(), run); n != 0 || err != nil {
		t.Errorf("once more: %d, %v", n, err)
	}
}

func TestReapRefusesForeignRecords(t *testing.T) {
	run, victim := t.TempDir(), t.TempDir()
	name := prefix + strings.Repeat("0", 32)
	for _, dir := range []string{victim, victim + "/" + name} {
		os.Mkdir(victim+"/"+name, 0o755)
		if err := os.WriteFile(run+"/"+name+lockSuffix, []byte(dir+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if n, err := Reap(context.Background(), run); n != 0 || err == nil {
			t.Errorf("a record of %s: %d, %v", dir, n, err)
		}
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// A pool makes, leases and drops groups from many goroutines at once.
func TestManyGroupsAtOnce(t *testing.T) {
	o := owner(t)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 20 {
				if err := life(o, fmt.Sprintf("w%d-%d", worker, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func life(o *Owner, name string) error {
	g, err := o.Create(name)
	if err != nil {
		return err
	}
	if _, err := g.Attach(true); err != nil {
		return err
	}
	return errors.Join(g.Set(Limits{Memory: 1 << 26, CPUs: 0.5, Pids: 7}), g.Kill(context.Background()), g.Remove(context.Background()))
}

// TestTreesAreMadeWhenNeeded: a program whose groups have no limit in a tree is not there.
func TestTreesAreMadeWhenNeeded(t *testing.T) {
	onEachLayout(t, func(t *testing.T, o *Owner) {
		check := func(limited bool) {
			for i, dir := range directories(o) {
				_, err := os.Stat(dir)
				needed := !o.spares(i) || limited && o.host.trees[i].holds&(Pids|CPU) != 0
				if needed != (err == nil) {
					t.Errorf("%s, with limits: %v: %v", dir, limited, err)
				}
			}
		}
		check(false)
		g := group(t, o, Limits{Memory: 1 << 30})
		check(false)
		if err := g.Set(Limits{Pids: 100, CPUs: 1}); err != nil {
			t.Fatal(err)
		}
		check(true)
	})
}

// TestNoTreeAfterClose: a limit that comes too late makes nothing that nobody would remove.
func TestNoTreeAfterClose(t *testing.T) {
	onEachLayout(t, func(t *testing.T, other *Owner) {
		o, err := other.host.Own(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		g := group(t, o, Limits{Memory: 1 << 30})
		if err := o.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := g.Set(Limits{Pids: 100, CPUs: 1}); err == nil {
			t.Error("a limit was set after all")
		}
		for _, dir := range directories(o) {
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v", dir, err)
			}
		}
	})
}

// TestMove: who is in a group, and what it starts meanwhile, is in another afterwards.
func TestMove(t *testing.T) {
	onEachLayout(t, func(t *testing.T, o *Owner) {
		from, to := group(t, o, Limits{}), group(t, o, Limits{})
		cmd, err := command(from, "/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do sleep 60 & done; wait")
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		holds := func(n node, count int) bool {
			return eventually(func() bool {
				found, err := n.processes()
				return err == nil && len(found) >= count
			})
		}
		here, _ := from.with(Memory)
		there, _ := to.with(Memory)
		if !holds(here, 1) {
			t.Fatal("the process does not come")
		}
		if err := here.move(there); err != nil {
			t.Fatal(err)
		}
		if left, err := here.processes(); err != nil || len(left) > 0 {
			t.Errorf("%v are left: %v", left, err)
		}
		if !holds(there, 10) {
			t.Error("what it started is not there")
		}
		for _, g := range []*Group{from, to} { // the tree in which they were not moved, too
			if err := g.Kill(t.Context()); err != nil {
				t.Error(err)
			}
		}
		_ = cmd.Wait() // killed is what it is to be
	})
}

// TestProcess1StepsAside: as in a container, whose first process the program may be.
func TestProcess1StepsAside(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root makes pid namespaces")
	}
	onEachLayout(t, func(t *testing.T, o *Owner) {
		g := group(t, o, Limits{})
		here, _ := g.with(Memory)
		dir := directories(o)[slices.Index(g.nodes, here)] + "/" + here.name
		self := node{here.dir, here.name + selfSuffix}
		cmd := play(t, g, "aside", dir, dir+selfSuffix)
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWPID
		out, err := cmd.Output()
		if err != nil || string(out) != "process 1 of [] and [1]\n" {
			t.Errorf("%q, %v", out, err)
		}
		if err := self.remove(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
