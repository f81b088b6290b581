package confine

import (
	"errors"
	"fmt"
	"syscall"

	"aether/internal/host/checkpoint"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// birth writes the script of one process.
type birth struct {
	script
	root  *Twin // whose script it is, and whose memory the process is born with
	twin  *Twin
	cell  *Cell
	maker spawn.Step // unless there is a spare
	spare *spare
	files []int // what the process is sent
	below []*birth
	check func() error // to be made when it is ready
	Rebirth
}

func newBirth(s script, root, t *Twin, c *Cell, r Rebirth) *birth {
	b := &birth{script: s, root: root, twin: t, cell: c, Rebirth: r, check: func() error { return nil }}
	for i, child := range t.Children {
		b.below = append(b.below, newBirth(s, root, child, c, r.Children[i]))
	}
	return b
}

// write appends everything that a spare has not done already.
func (b *birth) write(ready spawn.Word) error {
	if err := b.gather(); err != nil {
		return err
	}
	if b.spare == nil {
		b.comeByMaker()
	}
	own := b.becomeInside
	if !b.root.recalled {
		own = func() error { return nil }
		b.chdir(b.Dir)
		b.twin.state.RestoreProcess(b.Script)
	}
	h := b.cell.host
	b.dropButOne(credentials{uid: b.UID, gid: b.GID, groups: b.Groups, single: h.Identity.Single})
	if !b.confined() {
		b.rules(b.cell)
	}
	b.terminal()
	if err := b.family(own, ready); err != nil {
		return err
	}
	return b.Err()
}

// comeByMaker appends how the process comes into the cell where there is no spare:
// the twin branches off one that shares its memory and joins the cell's
// namespaces, and whose child has the memory for itself.
func (b *birth) comeByMaker() {
	b.part(partEnter)
	b.maker = b.Clone(spawn.Clone{Flags: unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PARENT, Cgroup: -1})
	b.root.script.Return()
	b.Land(b.maker)
	b.come(b.newcomer(), b.twin.state.Tid(), 0)
}

// confined says whether the process is under the rules and the filter already.
func (b *birth) confined() bool { return b.spare != nil && b.spare.confined }

func (b *birth) newcomer() newcomer { return newcomer{b.cell, b.Group} }

// family appends the making of the process's children, each of which is ready
// before the next, then own and what the process itself still has to do, and then
// the children's own steps.
func (b *birth) family(own func() error, ready spawn.Word) error {
	clones := make([]spawn.Step, len(b.below))
	words := make([]spawn.Word, len(b.below))
	for i, child := range b.below {
		clones[i] = b.Clone(spawn.Clone{Tids: []int{child.twin.state.Tid()}, Cgroup: -1, Ended: syscall.SIGCHLD})
		words[i] = b.Word()
		b.WaitAny(words[i])
	}
	if err := errors.Join(own(), b.settle(ready)); err != nil {
		return err
	}
	for i, child := range b.below {
		b.Land(clones[i])
		if err := child.member(words[i]); err != nil {
			return err
		}
	}
	return nil
}

// member appends the steps of a process that has a parent in the cell. It begins
// as a copy of its parent that has nothing of its own yet.
func (b *birth) member(ready spawn.Word) error {
	if err := b.gather(); err != nil {
		return err
	}
	b.group()
	return b.family(b.becomeInside, ready)
}

// becomeInside appends the taking on of what the process was, its memory from the
// file that it was saved to.
func (b *birth) becomeInside() (err error) {
	b.receive(1)
	if b.root.recalled {
		b.check, err = b.twin.state.RestoreMemoryAnew(b.root.script, b.root.process.Pid())
	} else {
		b.check, err = b.twin.state.RestoreMemoryOver(b.root.script, b.root.state)
	}
	if err != nil {
		return err
	}
	b.closeFrom(3)
	b.chdir(b.Dir)
	b.twin.state.RestoreProcess(b.Script)
	return nil
}

// group appends the change to the session and process group that it is in.
func (b *birth) group() {
	place := b.twin.Place
	switch {
	case place.Session == b.twin.of:
		b.Call(unix.SYS_SETSID)
	case place.Group == b.twin.of:
		b.Call(unix.SYS_SETPGID, 0, 0)
	case place.Group != b.twin.Parent.Place.Group:
		b.Call(unix.SYS_SETPGID, 0, uintptr(b.root.Inside(place.Group)))
	}
}

// settle appends what every process does last.
func (b *birth) settle(ready spawn.Word) error {
	b.part(partFiles)
	b.receive(len(b.files))
	b.descriptors()
	b.part(partBorn)
	if b.spare == nil || b.spare.lessons < b.twin.habits.Samples() {
		b.twin.habits.Prefault(b.Script, b.twin.state)
	}
	b.twin.state.RestoreThreads(b.Script, b.dropLast)
	b.twin.state.RestoreTimers(b.Script)
	b.twin.state.RestoreLimits(b.Script) // last: it may have more already than it could take now
	b.dropLast()
	b.prctl(unix.PR_SET_DUMPABLE, b.twin.state.Dumpable())
	if !b.confined() {
		if err := b.filterWith(unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH); err != nil {
			return err
		}
	}
	b.Signal(ready)
	b.Park()
	return nil
}

// prepare makes the process, which is ready, and all below it what they are to
// go on as. It must be called on a thread for tracing.
func (b *birth) prepare(pid int, all *[]*checkpoint.Tracee) error {
	if len(b.below) > 0 {
		if err := b.prepareBelow(pid, all); err != nil {
			return err
		}
	}
	if err := b.check(); err != nil {
		return err
	}
	child, err := b.twin.state.RestoreRegisters(pid, b.root.script)
	*all = append(*all, child)
	return err
}

func (b *birth) prepareBelow(pid int, all *[]*checkpoint.Tracee) error {
	children, err := checkpoint.Children(pid)
	if err != nil {
		return err
	}
	if len(children) != len(b.below) {
		return fmt.Errorf("process %d has %d children, not %d", pid, len(children), len(b.below))
	}
	// They were made one after another, and are listed so.
	for i, child := range b.below {
		if err := child.prepare(children[i], all); err != nil {
			return err
		}
	}
	return nil
}
