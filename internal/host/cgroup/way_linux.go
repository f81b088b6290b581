package cgroup

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Way is how processes come into a group that lives long. Nothing of it is open
// before Open, so that an idle group costs no descriptor. Ways are compared by ==;
// that into no group is the zero value.
type Way struct {
	group *Group
	trees int // that it leads into; more once a limit of another kind is set
}

// Way gives the way into the group as it is now.
func (g *Group) Way() Way {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := Way{group: g}
	for i := range g.owner.host.trees {
		if g.member(i).name != "" {
			w.trees++
		}
	}
	return w
}

// Clones says whether the way is, in part, to be born in the group.
func (w Way) Clones() bool { return w.unified(0) }

// Files is how many files a process writes to on its way.
func (w Way) Files() int {
	if w.Clones() {
		return w.trees - 1
	}
	return w.trees
}

// IntoMemory is as in Attach.
func (w Way) IntoMemory() bool { return w.unified(Memory) }

// unified says whether the way leads into a tree of version 2 that holds something.
func (w Way) unified(holds Controller) bool {
	if w.group == nil {
		return false
	}
	for i, t := range w.group.owner.host.trees {
		if t.unified && t.holds&holds == holds && w.group.member(i).name != "" {
			return true
		}
	}
	return false
}

// Open opens the way by descriptors from first on. Close must follow.
func (w Way) Open(first int) (Attach, error) {
	a := Attach{Into: -1}
	if w.group == nil {
		return a, nil
	}
	g := w.group
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, t := range g.owner.host.trees {
		if g.member(i).name == "" {
			continue
		}
		a.IntoMemory = a.IntoMemory || t.unified && t.holds&Memory != 0
		if err := a.add(g.member(i), t.unified, true); err != nil {
			return Attach{Into: -1}, g.wrap("attach", errors.Join(err, a.Close()))
		}
	}
	return a, g.wrap("attach", a.from(first))
}

// from moves the descriptors that are below first.
func (a *Attach) from(first int) error {
	for i := range a.Files {
		if err := moveFrom(&a.Files[i], first); err != nil {
			return errors.Join(err, a.Close())
		}
	}
	if a.Into < 0 {
		return nil
	}
	if err := moveFrom(&a.Into, first); err != nil {
		return errors.Join(err, a.Close())
	}
	return nil
}

func moveFrom(fd *int, first int) error {
	if *fd >= first {
		return nil
	}
	moved, err := unix.FcntlInt(uintptr(*fd), unix.F_DUPFD_CLOEXEC, first)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	err = unix.Close(*fd)
	*fd = moved
	return err
}

// Close closes what Way.Open opened.
func (a Attach) Close() (err error) {
	for _, fd := range a.Files {
		err = errors.Join(err, unix.Close(fd))
	}
	if a.Into >= 0 {
		err = errors.Join(err, unix.Close(a.Into))
	}
	return err
}
