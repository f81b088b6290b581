package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"sync"

	"golang.org/x/sys/unix"

	"aether/sandbox"
)

// Owner is the parent of all groups of one running program: one directory in
// each tree, and a locked file that tells Reap of other programs that it lives.
type Owner struct {
	host *Hierarchy
	name string
	lock *os.File
	kept kept

	mu     sync.Mutex
	roots  []node // one for each tree of host; without a name before the first group there
	closed bool
}

// Own makes the program's parent groups. runDir holds the lock files of all
// programs that may reap each other; it has to exist. The result is Unavailable
// where no groups can be made at all.
func (h *Hierarchy) Own(runDir string) (*Owner, error) {
	if len(h.trees) == 0 {
		return nil, h.Missing(Memory)
	}
	lock, id, err := newLock(runDir)
	if err != nil {
		return nil, fmt.Errorf("cgroup: lock in %s: %w", runDir, err)
	}
	o := &Owner{host: h, lock: lock, name: prefix + id}
	if err := o.build(); err != nil {
		return nil, errors.Join(err, o.Close(context.Background()))
	}
	return o, nil
}

// build records what will exist before any of it does, so that a program killed
// in between is reaped whole.
func (o *Owner) build() error {
	if err := writeRecord(o.lock, o.host.trees, o.name); err != nil {
		return fmt.Errorf("cgroup: record: %w", err)
	}
	o.roots = make([]node, len(o.host.trees))
	for i := range o.roots {
		if o.spares(i) {
			continue
		}
		if _, err := o.root(i); err != nil {
			return err
		}
	}
	return nil
}

// root is the program's parent group in tree i, which is made if nobody has needed it yet.
func (o *Owner) root(i int) (node, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return node{}, fmt.Errorf("cgroup: the program's groups: %w", os.ErrClosed)
	}
	if o.roots[i].name == "" {
		t := o.host.trees[i]
		fd, err := buildRoot(t, o.name)
		if err != nil {
			return node{}, creation(path.Join(t.base, o.name), err)
		}
		o.roots[i] = node{fd, "."}
	}
	return o.roots[i], nil
}

func buildRoot(t tree, name string) (int, error) {
	dir := path.Join(t.base, name)
	if err := unix.Mkdir(dir, 0o755); err != nil {
		return -1, err
	}
	if t.unified && t.holds != 0 {
		if err := giveControllers(t, name); err != nil {
			return -1, errors.Join(err, unix.Rmdir(dir))
		}
	}
	return unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
}

// maxGroupName bounds the names of groups.
const maxGroupName = 128

// Create makes an empty group without limits. Errors: Invalid for a name that
// is none, Conflict for one that exists, Exhausted where the host has no room.
func (o *Owner) Create(name string) (*Group, error) {
	if !sandbox.IsName(name, maxGroupName) {
		return nil, sandbox.Invalidf("name", "%.80q must be lower-case letters, digits and dashes, at most 128", name)
	}
	g := &Group{owner: o, name: name, nodes: make([]node, len(o.roots))}
	for i := range o.roots {
		if o.spares(i) {
			continue
		}
		if err := g.grow(i); err != nil {
			return nil, errors.Join(err, removeAll(context.Background(), g.nodes[:i]))
		}
	}
	return g, nil
}

// spares says that a group needs no directory in tree i before it has a limit there.
// Each costs time and memory, and entering it costs every process.
func (o *Owner) spares(i int) bool {
	t := o.host.trees[i]
	return !t.unified && t.holds&(Memory|freezer|account) == 0 && len(o.host.trees) > 1
}

// grow makes the group's directory in tree i.
func (g *Group) grow(i int) error {
	root, err := g.owner.root(i)
	if err != nil {
		return err
	}
	n := node{root.dir, g.name}
	if err := n.mkdir(); err != nil {
		return creation(g.name, err)
	}
	g.nodes[i] = n
	return nil
}

// creation explains why a directory could not be made.
func creation(name string, err error) error {
	e := &sandbox.Error{Op: "cgroup: create " + name, Err: err}
	switch {
	case errors.Is(err, unix.EEXIST):
		e.Class, e.Reason = sandbox.Conflict, "the group exists"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
		e.Class, e.Reason, e.Remedy = sandbox.Unavailable, "this user may not make groups", remedyDelegate
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EAGAIN):
		e.Class, e.Reason, e.Retry = sandbox.Exhausted, "the host has no room for another group", true
	}
	return e
}

// places are the program's parent groups, whether they exist or not.
func (o *Owner) places() []node {
	list := make([]node, 0, len(o.host.trees))
	for _, t := range o.host.trees {
		list = append(list, node{unix.AT_FDCWD, path.Join(t.base, o.name)})
	}
	return list
}

// Close kills what is left in the program's groups and removes them and the
// lock. After an error the next Reap goes on.
func (o *Owner) Close(ctx context.Context) error {
	for _, g := range o.kept.close() {
		_ = removeEmpty(g.nodes) // what is left is found below
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	err := endAll(ctx, o.places())
	for _, root := range o.roots {
		if root.name != "" {
			err = errors.Join(err, unix.Close(root.dir))
		}
	}
	for _, t := range o.host.trees {
		if t.crowded && err == nil {
			err = stepBack(ctx, t, o.name)
		}
	}
	if err == nil {
		err = os.Remove(o.lock.Name())
	}
	return errors.Join(err, o.lock.Close())
}
