package confine

import (
	"errors"
	"fmt"
	"os"

	"aether/internal/host/cgroup"

	"golang.org/x/sys/unix"
)

// target is where a process finds the namespaces of a cell to join, and the group
// to be cloned into.
type target struct {
	pidfd   int     // of the cell's PID 1
	joined  uintptr // flags of its namespaces
	network int     // the cell's net namespace, where that is not PID 1's; or -1
	group   cgroup.Attach
	// cgroupns is the cell's cgroup namespace, for those who are cloned into a
	// version 2 group, or -1.
	//
	// A cgroup file system that is mounted with nsdelegate, as systemd does, lets a
	// process be cloned into a group only if that group and the cloning process's
	// own are both below the root of its cgroup namespace. The root of the cell's is
	// the cell's group, in which the cloning process is not. So it joins all others,
	// and its child, which is born in the group, joins this one: by a descriptor,
	// for it is in the cell's user namespace then and may not look at PID 1.
	cgroupns int
}

// withTarget runs fn with the cell as target; its PID 1 is not reaped meanwhile.
func (c *Cell) withTarget(way cgroup.Way, fn func(target) error) error {
	return c.withPlaces(way, func(pidfd, network int, group cgroup.Attach) (err error) {
		t := target{pidfd: pidfd, joined: c.joined(), network: network, group: group, cgroupns: -1}
		if group.Into >= 0 {
			if t.cgroupns, err = openCgroupNamespace(c.init.Pid()); err != nil {
				return err
			}
			defer unix.Close(t.cgroupns)
		}
		return fn(t)
	})
}

// withPlaces runs fn with the descriptors of PID 1, of the net namespace that withLease gives,
// and of the way into groups.
func (c *Cell) withPlaces(way cgroup.Way, fn func(pidfd, network int, group cgroup.Attach) error) error {
	return c.withLease(func(network int) error {
		return c.init.Near(firstFd, func(pidfd int) (err error) {
			group, err := way.Open(firstFd)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, group.Close()) }()
			return fn(pidfd, network, group)
		})
	})
}

// openCgroupNamespace gives a descriptor above those that scripts use by number.
func openCgroupNamespace(pid int) (int, error) {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/cgroup", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("open the cgroup namespace", err)
	}
	return raise(fd)
}

// raise moves a descriptor that scripts cannot name, for a number of theirs is the same.
func raise(fd int) (int, error) {
	if fd >= firstFd {
		return fd, nil
	}
	defer unix.Close(fd)
	moved, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, firstFd)
	return moved, os.NewSyscallError("fcntl", err)
}

// first are the namespaces that the cloning process joins.
func (t target) first() uintptr {
	if t.cgroupns < 0 {
		return t.joined
	}
	return t.joined &^ unix.CLONE_NEWCGROUP
}

// enterNamespaces appends the joining of the namespaces by the process that will clone.
func (s script) enterNamespaces(t target) {
	s.enterNetwork(t.network)
	s.Call(unix.SYS_SETNS, uintptr(t.pidfd), t.first())
}

// enterNetwork appends the joining of a net namespace that is not PID 1's. It takes rights in
// the user namespace of this program, so it comes first.
func (s script) enterNetwork(network int) {
	if network >= 0 {
		s.Call(unix.SYS_SETNS, uintptr(network), unix.CLONE_NEWNET)
	}
}

// enterGroups appends what is left to join for the process that was cloned.
func (s script) enterGroups(t target) {
	if t.cgroupns >= 0 {
		s.Call(unix.SYS_SETNS, uintptr(t.cgroupns), unix.CLONE_NEWCGROUP)
	}
	s.join(t.group)
}
