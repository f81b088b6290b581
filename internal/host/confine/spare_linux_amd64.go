package confine

import (
	"errors"
	"os"
	"syscall"

	"aether/internal/host/cgroup"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// spare is a copy of a twin that stands by for the next child: what takes longest
// of a birth, the copying of all page tables, is behind it. When the child's cell
// is known it joins that, has a child there that shares its memory, and ends; the
// memory is then that child's alone, which stands by in its stead.
type spare struct {
	process *spawn.Process
	lessons int   // that were known when it was made
	cell    *Cell // that it is for, or nil
	called  bool  // it may come as soon as it is summoned
	coming  bool  // it has not got there yet
	// confined says that it is under the cell's rules and filter already. It can
	// make neither threads nor other processes.
	confined bool
}

// makeSpare has the twin make a spare, with the pages that children are known to
// use. One that cannot be made is done without.
func (t *Twin) makeSpare() error {
	if t.broken || t.recalled || t.spare != nil {
		return nil
	}
	s := t.newScript()
	t.script.Rewind()
	t.script.Recruit()
	clone := s.Clone(spawn.Clone{Flags: unix.CLONE_PARENT, Cgroup: -1}).MayFail()
	t.script.Return()
	s.Land(clone)
	s.dieWithParent(os.Getpid())
	t.habits.Prefault(s.Script, t.state)
	t.script.StandBy()
	if err := t.adoptSpare(t.run(), int(clone.Result())); err != nil {
		return errors.Join(err, t.dropSpare())
	}
	return nil
}

// adoptSpare waits until a process that was cloned, if one was, stands by. failed
// is what the twin said to it.
func (t *Twin) adoptSpare(failed error, pid int) error {
	t.broken = t.broken || failed != nil
	if pid <= 0 {
		return errors.Join(failed, syscall.Errno(-pid))
	}
	p, err := spawn.Adopt(pid)
	if err != nil {
		return errors.Join(failed, err)
	}
	t.spare = &spare{process: p, lessons: t.habits.Samples()}
	if failed != nil {
		return failed
	}
	return t.script.AwaitStandBy(p)
}

// dieWithParent has the kernel kill the process when the thread that is its parent
// ends, and ends it if that has happened already: then it has another parent than
// the one named.
func (s script) dieWithParent(parent int) {
	s.prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	number, _ := s.Bytes(8)
	s.Call(unix.SYS_GETPPID).IntoAddress(number)
	s.Expect(number, uint32(parent))
}

// Expect has spares come into the cell that the next child will be in, while there
// is other work to do.
func (im *Imprint) Expect(c *Cell, group cgroup.Attach) error {
	return im.expect(newcomer{c, group}, (*Twin).come)
}

// Announce has them come while the next imprint is taken, as soon as the processes
// that it is of have said what they have to: until then a processor that is free
// is for those, which stand still meanwhile.
func (im *Imprint) Announce(c *Cell, group cgroup.Attach) error {
	return im.expect(newcomer{c, group}, func(*Twin) {})
}

func (im *Imprint) expect(n newcomer, then func(*Twin)) error {
	for _, t := range im.Twins {
		if err := t.expect(n); err != nil {
			return err
		}
		then(t)
	}
	return nil
}

func (t *Twin) expect(n newcomer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.spare == nil || t.spare.cell != nil {
		return nil
	}
	return t.invite(n)
}

// come has a spare come that is called.
func (t *Twin) come() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.summonSpare()
}

func (t *Twin) summonSpare() {
	if t.spare != nil && t.spare.called {
		t.spare.called, t.spare.coming = false, true
		t.summon()
	}
}

// invite calls the spare.
func (t *Twin) invite(n newcomer) error {
	s := t.newScript()
	t.script.Rewind()
	s.come(n, t.state.Tid(), unix.CLONE_VM)
	var err error
	if t.spare.confined = t.alone(); t.spare.confined {
		err = s.confine(n)
	}
	// Where it will be is looked up for the first time in that cell, which takes
	// long. It may not be there yet.
	s.Call(unix.SYS_CHDIR, s.String(t.Place.Dir)).MayFail()
	t.script.StandBy()
	if err = errors.Join(err, s.Err()); err == nil {
		err = t.sendCell(n)
	}
	if err != nil {
		return errors.Join(err, t.dropSpare())
	}
	t.spare.cell, t.spare.called = n.cell, true
	return nil
}

// alone says whether the process had one thread and no children.
func (t *Twin) alone() bool { return len(t.Children) == 0 && t.state.Single() }

// settleSpare waits until the spare, if there is one, has come into the cell that
// it is for. One that is in another is of no use, nor is one that cannot make what
// the process has made since.
func (t *Twin) settleSpare(n newcomer) error {
	if t.spare == nil {
		return nil
	}
	if t.spare.cell == nil {
		if err := t.invite(n); err != nil {
			return err
		}
	}
	if t.spare.cell != n.cell || t.spare.confined && !t.alone() {
		return t.dropSpare()
	}
	return t.awaitSpare()
}

// Arrived waits until whoever was expected is in the cell. Before that no other
// process may be made there, which might be given the number that it will have.
func (t *Twin) Arrived() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.spare == nil {
		return nil
	}
	return t.awaitSpare()
}

func (t *Twin) awaitSpare() error {
	if err := t.arrived(); err != nil {
		return errors.Join(err, t.dropSpare())
	}
	return nil
}

// arrived waits until the spare walks the script no more: its child stands by.
func (t *Twin) arrived() error {
	t.summonSpare()
	if !t.spare.coming {
		return nil
	}
	t.spare.coming = false
	t.leaving = t.spare.process
	var err error
	if !t.leaving.HasEnded() {
		err = t.reapSpare()
	}
	if err == nil {
		err = t.arrivedChild()
	}
	if err != nil {
		t.broken = true // what was sent and not received would be taken for the next one's
	}
	return err
}

func (t *Twin) arrivedChild() error {
	child, err := t.adopt()
	if err != nil {
		return err
	}
	t.spare.process = child
	if err := t.script.AwaitStandBy(child); err != nil {
		return err
	}
	return t.script.Failure() // of who has ended
}

// reapSpare waits for a spare that has done its work.
func (t *Twin) reapSpare() (err error) {
	if t.leaving != nil {
		_, err = t.leaving.Wait()
		t.leaving = nil
	}
	return err
}

// dropSpare ends the spare, if there is one.
func (t *Twin) dropSpare() error {
	if t.spare == nil {
		return t.reapSpare()
	}
	err := t.arrived()
	p := t.spare.process
	t.spare = nil
	return errors.Join(err, t.reapSpare(), bury(p))
}

// Compact makes the birth of many children cheaper, for whoever will have them at
// once.
func (im *Imprint) Compact() error {
	for _, t := range im.Twins {
		if err := t.compact(); err != nil {
			return err
		}
	}
	return nil
}

func (t *Twin) compact() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Parent != nil || t.recalled || t.broken {
		return nil
	}
	t.script.Rewind()
	t.state.CollapsePages(t.script.Script)
	t.script.Return()
	return t.run()
}

// StandBy prepares, in the background, for more children: twins that have had
// several will have more.
func (im *Imprint) StandBy() {
	for _, t := range im.Twins {
		if t.Parent == nil {
			t.standBy()
		}
	}
}

// standBy holds the twin before it returns, so that whoever wants a child next
// waits for the spare.
func (t *Twin) standBy() {
	t.mu.Lock()
	if t.children < 2 {
		t.mu.Unlock()
		return
	}
	go func() {
		defer t.mu.Unlock()
		_ = t.makeSpare() // it only saves time
	}()
}
