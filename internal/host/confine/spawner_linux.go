package confine

import (
	"errors"
	"os"
	"slices"

	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// spawner is a thread that clones, and the stage that it stands on.
type spawner struct {
	*spawn.Thread
	base  *Base
	named bool // it can act in the name of another and keep its rights
}

// secbitNoSetuidFixup has a change of user leave the thread's capabilities as they are.
const secbitNoSetuidFixup = 1 << 2

// overCells are the capabilities by which root does what it does with cells that are
// not in its name. Who makes a user namespace has all of them there, but no other.
var overCells = []uint{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID,
	unix.CAP_SETPCAP, unix.CAP_NET_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_SYS_PTRACE, unix.CAP_SYS_ADMIN}

// prepare makes the thread ready to stand on stages and, for root, to act in the name
// of cells. A root who lacks what that takes goes without.
func (t *spawner) prepare(root bool) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	t.named = root && !slices.ContainsFunc(overCells, func(c uint) bool { return !capable(c) }) &&
		unix.Prctl(unix.PR_SET_SECUREBITS, secbitNoSetuidFixup, 0, 0, 0) == nil
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
	if err := effective(id); err != nil {
		return err
	}
	return errors.Join(fn(), effective(0))
}

// effective changes the id of this thread alone.
func effective(id int) error {
	const same = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(id), same); errno != 0 {
		return os.NewSyscallError("setresuid", errno)
	}
	return nil
}

// clone starts PID 1 by one of the threads, and gives with it the cell's own view of
// devices, as a mount, or -1 where its stage is its own.
func (c *Cell) clone(s script, flags uint64, group int) (started spawn.Started, devices int, err error) {
	devices = -1
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
		if devices, err = viewDevices(); err != nil {
			return err
		}
		if c.host.without[partRange] {
			return start()
		}
		return t.inNameOf(c.identity.owner(), start)
	})
	if err != nil && devices >= 0 {
		err = errors.Join(err, unix.Close(devices))
	}
	return started, devices, err
}
