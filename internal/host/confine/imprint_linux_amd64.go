package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"aether/internal/host/checkpoint"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// Imprint is what a cell was at one instant: a twin of each of its processes.
type Imprint struct {
	Twins []*Twin
	// Pause is how long the cell was stopped for it, Copied how much memory was
	// copied.
	Pause  time.Duration
	Copied uint64

	kept *checkpoint.SharedObjects // what the processes hold together
	// keeper is the thread that twins are children of: they end with it.
	keeper *spawn.Thread
	from   places // of the cell, for the next one's files
}

// Running is a process of a cell, by its number here. Parent is the place of its
// parent in the list that it is in, or -1 for one that was started from outside.
type Running struct{ PID, Parent int }

// ErrOthers is the failure of an imprint of processes that are not all.
var ErrOthers = errors.New("confine: the cell has other processes")

// strangers says which process has them.
type strangers struct{ error }

func (s strangers) Unwrap() error      { return s.error }
func (strangers) Is(target error) bool { return target == ErrOthers }

// Imprint takes an imprint of processes of the cell, which must be all that run
// in it, parents before their children: ErrOthers says that they are not. They are
// stopped meanwhile, and go on exactly as they were whether or not it succeeds;
// during runs while they are. last is the imprint that was taken before, or nil: it
// is used up, and if it is of the same processes only what they have written since
// has to be copied.
func (c *Cell) Imprint(list []Running, last *Imprint, during func() error) (_ *Imprint, err error) {
	im := last
	if im == nil || !slices.EqualFunc(im.Twins, list, func(t *Twin, r Running) bool { return t.of == r.PID && t.usable() }) {
		if err := last.Close(); err != nil {
			return nil, err
		}
		if im, err = newImprint(c, list); err != nil {
			return nil, fmt.Errorf("confine: take an imprint: %w", err)
		}
	}
	if err = im.trace(func() error { return im.take(c, during) }); err == nil {
		err = im.catchUp()
	}
	if err == nil {
		return im, nil
	}
	again := last != nil && errors.Is(err, checkpoint.ErrOther)
	if err = errors.Join(err, im.Close()); again {
		return c.Imprint(list, nil, during)
	}
	return nil, fmt.Errorf("confine: take an imprint: %w", err)
}

// Processes are those that the imprint is of.
func (im *Imprint) Processes() (list []Running) {
	for _, t := range im.Twins {
		list = append(list, Running{t.of, slices.Index(im.Twins, t.Parent)})
	}
	return list
}

func (im *Imprint) catchUp() error {
	for _, t := range im.Twins {
		if err := t.catchUp(); err != nil {
			return err
		}
	}
	return nil
}

// newImprint starts what becomes twins of processes, which may be running.
func newImprint(c *Cell, list []Running) (im *Imprint, err error) {
	im = &Imprint{}
	if im.keeper, err = spawn.NewThread(func() error { return nil }); err != nil {
		return nil, err
	}
	if im.from, err = c.places(); err != nil {
		return nil, errors.Join(err, im.Close())
	}
	for _, r := range list {
		t := &Twin{host: c.host, of: r.PID, keeper: im.keeper}
		if r.Parent >= 0 {
			t.Parent = im.Twins[r.Parent]
			t.Parent.Children = append(t.Parent.Children, t)
		} else if t, err = c.host.newTwin(r.PID, im.keeper); err != nil {
			return nil, errors.Join(err, im.Close())
		}
		im.Twins = append(im.Twins, t)
	}
	return im, nil
}

// trace runs a function on a thread that traces.
func (im *Imprint) trace(fn func() error) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() { // this one never ends
			err = im.keeper.Do(fn)
			runtime.UnlockOSThread()
			return
		}
		if err = fn(); err == nil {
			runtime.UnlockOSThread()
		}
		// A thread of a process may be stuck: this one ends with this function
		// then, and lets go of all that it traces.
	}()
	<-done
	return err
}

// take stops the processes and does what has to be done meanwhile: first all that
// may be refused, then the rest.
func (im *Imprint) take(c *Cell, during func() error) (err error) {
	if err := im.kept.Close(); err != nil {
		return err
	}
	im.kept, im.Copied = checkpoint.NewSharedObjects(), 0
	began := time.Now()
	defer func() {
		err = errors.Join(err, im.resume())
		im.Pause = time.Since(began)
	}()
	for _, t := range im.Twins {
		if t.paused, err = checkpoint.StopProcess(t.of); err != nil {
			return err
		}
	}
	if err := im.complete(c.Pid()); err != nil {
		return err
	}
	states := make([]*checkpoint.State, len(im.Twins))
	for i, t := range im.Twins {
		if states[i], err = t.look(im.kept); err != nil {
			return err
		}
	}
	if err := im.kept.Check(); err != nil {
		return err
	}
	for i, t := range im.Twins {
		take := t.become
		if t.Parent != nil {
			take = t.save
		}
		if err := take(states[i]); err != nil {
			return err
		}
		im.Copied += states[i].Copied()
	}
	return during()
}

// complete makes sure that the stopped processes are all there are: they may have
// made others before they were stopped, and those may be PID 1's by now.
func (im *Imprint) complete(init int) error {
	known := map[int]bool{}
	for _, t := range im.Twins {
		known[t.of] = true
	}
	for _, t := range im.Twins {
		for _, parent := range []int{t.of, init} {
			children, err := checkpoint.Children(parent)
			if err != nil {
				return err
			}
			for _, child := range children {
				if !known[child] {
					return strangers{t.paused.Starting()}
				}
			}
		}
	}
	return nil
}

func (im *Imprint) resume() error {
	var errs []error
	for _, t := range im.Twins {
		if t.paused != nil {
			errs = append(errs, t.paused.Resume())
			t.paused = nil
		}
	}
	return errors.Join(errs...)
}

// Close lets go of the imprint. What was made of it stays.
func (im *Imprint) Close() error {
	if im == nil {
		return nil
	}
	var errs []error
	for _, t := range im.Twins {
		errs = append(errs, t.close())
	}
	im.keeper.Close()
	return errors.Join(append(errs, im.kept.Close(), im.from.close())...)
}

// OpenWrites is Cell.OpenWrites from the cell that the imprint is of.
func (im *Imprint) OpenWrites(to *Cell) (*Writes, error) {
	w := &Writes{host: to.host}
	var err error
	for i, f := range im.from {
		// The imprint may be used up before the writes are taken.
		if w.from[i], err = duplicate(f); err != nil {
			break
		}
	}
	if err == nil {
		err = w.open(to)
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
