package cgroup

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Attach is what a new process needs to be in a group from its first
// instruction on. The descriptors stay open until the group is removed; the
// process must not keep them.
type Attach struct {
	// Files are open for writing. The process writes "0" to each, which moves
	// the writer, before it becomes anything that is not trusted.
	Files []int
	// Into is the directory for clone3 with CLONE_INTO_CGROUP, or -1.
	Into int
	// IntoMemory says that memory is limited there. What shares the memory of
	// another program must then not be in it: the kernel would kill both.
	IntoMemory bool
}

// Attach opens the way into the group. clone says that the spawner will use
// CLONE_INTO_CGROUP: with it, entering version 2 costs nothing; without it (the
// kernel is older than 5.7, or a filter around us forbids clone3), that tree has
// a file as the others have. The answer is kept, for the first caller's choice,
// until Set adds a limit of another kind.
func (g *Group) Attach(clone bool) (Attach, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.attach != nil {
		return *g.attach, nil
	}
	a := &Attach{Into: -1}
	g.attach = a
	for i, t := range g.owner.host.trees {
		if g.member(i).name == "" {
			continue
		}
		a.IntoMemory = a.IntoMemory || t.unified && t.holds&Memory != 0
		if err := a.add(g.member(i), t.unified, clone); err != nil {
			return Attach{}, g.wrap("attach", errors.Join(err, g.closeAttach()))
		}
	}
	return *a, nil
}

// member is the directory that a process of the group is in, in tree i: a Sub
// has one of its own in one tree only.
func (g *Group) member(i int) node {
	if g.parent == nil {
		return g.nodes[i]
	}
	if at, _ := g.owner.control(); at == i {
		return g.nodes[0]
	}
	return g.parent.nodes[i]
}

func (a *Attach) add(n node, unified, clone bool) error {
	if unified && clone {
		fd, err := n.open(".", unix.O_PATH|unix.O_DIRECTORY)
		if err == nil {
			a.Into = fd
		}
		return err
	}
	// A single thread that moves itself through tasks needs no lock on all
	// forks of the host; through cgroup.procs it would wait for one, some
	// milliseconds long.
	file := "tasks"
	if unified {
		file = "cgroup.procs"
	}
	fd, err := n.open(file, unix.O_WRONLY)
	if err == nil {
		a.Files = append(a.Files, fd)
	}
	return err
}

// closeAttach is called with the lock held.
func (g *Group) closeAttach() error {
	if g.attach == nil {
		return nil
	}
	open := g.attach
	g.attach = nil
	return open.Close()
}
