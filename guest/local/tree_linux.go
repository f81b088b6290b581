package local

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"aether/internal/host/proctree"
)

// settleRounds bounds the wait for killed processes to be gone.
const settleRounds = 100

// tree is how everything that a process starts is found again: by a cgroup, or
// where there is none, by a mark in the environment.
type tree struct {
	group string   // the cgroup's directory, or empty
	dir   *os.File // it, until the process was started
	mark  proctree.Mark
	later *lingering

	mu       sync.Mutex
	released bool
}

// lingering are the groups in which daemons outlived the process that started
// them. They are removed when they are found empty.
type lingering struct {
	mu     sync.Mutex
	groups []string
}

func (l *lingering) add(group string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.groups = append(l.groups, group)
}

func (l *lingering) sweep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.groups = slices.DeleteFunc(l.groups, func(group string) bool { return !errors.Is(os.Remove(group), syscall.EBUSY) })
}

func (b *Backend) newTree() (*tree, error) {
	t := &tree{mark: proctree.NewMark(), later: &b.later}
	if b.cgroup == "" {
		return t, nil
	}
	b.later.sweep()
	t.group = filepath.Join(b.cgroup, "process-"+rand.Text())
	if err := os.Mkdir(t.group, 0o755); err != nil {
		return nil, err
	}
	dir, err := os.Open(t.group)
	if err != nil {
		return nil, errors.Join(err, os.Remove(t.group))
	}
	t.dir = dir
	return t, nil
}

// prepare makes a process start inside of the tree.
func (t *tree) prepare(env []string, attr *syscall.SysProcAttr) []string {
	if t.dir != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(t.dir.Fd())
		return env
	}
	return t.mark.Add(env)
}

// started lets go of what only the start needed.
func (t *tree) started() {
	if t.dir != nil {
		t.dir.Close()
	}
}

// release removes the cgroup, later if daemons still live in it.
func (t *tree) release() error {
	if t == nil || t.group == "" {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.released {
		return nil
	}
	err := os.Remove(t.group)
	if errors.Is(err, syscall.EBUSY) {
		t.later.add(t.group)
		return nil
	}
	t.released = err == nil
	return err
}

func (t *tree) kill(pid int) error {
	if t.group == "" {
		return t.mark.Kill(pid)
	}
	err := os.WriteFile(filepath.Join(t.group, "cgroup.kill"), []byte("1"), 0)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil // everything has ended and the group is gone
	}
	if err != nil {
		return err
	}
	return t.settle()
}

// settle waits for the killed to be gone, so that the group can be removed.
func (t *tree) settle() error {
	for range settleRounds {
		events, err := os.ReadFile(filepath.Join(t.group, "cgroup.events"))
		if errors.Is(err, os.ErrNotExist) || bytes.Contains(events, []byte("populated 0")) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := t.release(); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
