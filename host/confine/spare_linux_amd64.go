package confine

import (
	"errors"
	"os"
	"syscall"

	"aether/host/cgroup"
	"aether/host/spawn"

	"golang.org/x/sys/unix"
)

// spare is a copy of a twin that stands by to have the next child: what takes
// longest of a birth, the copying of all page tables, is behind it. It joins the
// cell, has a child that shares its memory, and ends; then the memory is that
// child's alone.
type spare struct {
	process *spawn.Process
	lessons int   // that were known when it was made
	cell    *Cell // that it has joined, or is joining, or nil
	joining bool  // it still walks the script
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
	t.habits.Populate(s.Script)
	t.script.StandBy()
	if err := t.adoptSpare(t.run(), int(clone.Result())); err != nil {
		return errors.Join(err, t.dropSpare())
	}
	return nil
}

// adoptSpare waits until a process that was cloned, if one was, stands by. failed
// is what the twin said to it.
func (t *Twin) adoptSpare(failed error, pid int) error {
	t.broken = failed != nil
	if pid <= 0 {
		return errors.Join(failed, syscall.Errno(-pid))
	}
	p, err := spawn.Adopt(pid)
	if err != nil {
		return errors.Join(failed, err)
	}
	t.spare = &spare{process: p, lessons: t.habits.Lessons()}
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

// Join has spares join the cell that the next child will be in, while there is
// other work to do.
func (im *Imprint) Join(c *Cell, group cgroup.Attach) error {
	for _, t := range im.Twins {
		if err := t.join(c, group); err != nil {
			return err
		}
	}
	return nil
}

func (t *Twin) join(c *Cell, group cgroup.Attach) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.spare == nil || t.spare.cell != nil {
		return nil
	}
	s := t.newScript()
	t.script.Rewind()
	s.joinCell(c, group)
	t.script.StandBy()
	if err := errors.Join(s.Err(), t.sendCell(c, group)); err != nil {
		return errors.Join(err, t.dropSpare())
	}
	t.spare.cell, t.spare.joining = c, true
	t.script.Summon()
	return nil
}

// settleSpare waits until the spare, if there is one, is in the cell that it is
// for. One that is in another is of no use any more.
func (t *Twin) settleSpare(c *Cell) error {
	if t.spare == nil || t.spare.cell == nil {
		return nil
	}
	if t.spare.cell != c {
		return t.dropSpare()
	}
	if err := t.joined(); err != nil {
		return errors.Join(err, t.dropSpare())
	}
	return nil
}

// joined waits until the spare walks the script no more.
func (t *Twin) joined() error {
	if !t.spare.joining {
		return nil
	}
	t.spare.joining = false
	err := t.script.AwaitStandBy(t.spare.process)
	// What it was sent and has not received would be taken for the next one's.
	t.broken = err != nil
	return err
}

// dropSpare ends the spare, if there is one.
func (t *Twin) dropSpare() error {
	if t.spare == nil {
		return nil
	}
	err := t.joined()
	p := t.spare.process
	t.spare = nil
	return errors.Join(err, bury(p))
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
	t.state.Compact(t.script.Script)
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
