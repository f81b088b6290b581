package confine

import (
	"errors"
	"os"

	"aether/internal/host/idrange"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// spawner is a thread that clones, and the stage that it stands on.
type spawner struct {
	*spawn.Thread
	base  *Base
	named bool  // it can act in the name of another and keep its rights
	away  error // why it has not come home from a net namespace
}

// prepare makes the thread ready to stand on stages and, for root, to act in the name
// of cells. A root who lacks what that takes goes without.
func (t *spawner) prepare(root bool) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	t.named = root && idrange.KeepRights()
	return nil
}

// stand puts the thread on the base's stage, for its next child to inherit.
func (t *spawner) stand(b *Base) error {
	if t.base == b {
		return nil
	}
	if err := unix.Setns(int(b.mount.Fd()), unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("setns", err)
	}
	t.base = b
	return nil
}

// inNameOf runs fn with another effective user id. The kernel counts what is in a user
// namespace for the user who made it, too: that is to be one of the cell's own, and not
// the host's root, whom all cells and the host's own services would share it with.
func (t *spawner) inNameOf(id int, fn func() error) error {
	if !t.named {
		return fn()
	}
	return idrange.InNameOf(id, fn)
}

// clone starts PID 1 by one of the threads, and gives with it the file system of the
// cell's own files, as a mount, or -1 where the cell makes that itself.
func (c *Cell) clone(s script, flags uint64, group int) (started spawn.Started, files int, err error) {
	files = -1
	start := func() (err error) {
		started, err = s.Start(flags, group)
		return err
	}
	err = c.host.on(func(t *spawner) (err error) {
		if c.identity.Single {
			return start()
		}
		if err := t.stand(c.base); err != nil {
			return err
		}
		if files, err = c.ownFiles(); err != nil {
			return err
		}
		return t.inNetwork(c, func() error {
			if c.host.without[partRange] {
				return start()
			}
			return t.inNameOf(c.identity.owner(), start)
		})
	})
	if err != nil && files >= 0 {
		err = errors.Join(err, unix.Close(files))
	}
	return started, files, err
}
