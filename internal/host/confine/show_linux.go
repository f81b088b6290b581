package confine

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"aether/internal/host/spawn"
	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// What root's cell is shown of the host, its image first of all, this program opens
// as mounts with the ids of the cell's own user namespace, and sends to PID 1, which
// waits for it. In a script they have known numbers from mountFd on: mounts, layers,
// the views over them, the host's /proc, and the file system of its own files.

// shown is what a cell is shown besides its image, and the way to it.
type shown struct {
	mounts []openMount
	files  int // see ownFiles
	socket *os.File
}

// shown is how many descriptors a cell of the tree receives.
func (t Tree) shown(mounts []openMount) int { return len(mounts) + len(t.Layers) + len(t.views) + 2 }

// show opens and sends it.
func (c *Cell) show(what shown) (err error) {
	userns, err := c.init.Namespace(spawn.UserNamespace)
	if err != nil {
		return err
	}
	defer unix.Close(userns)
	var open []int
	defer func() {
		for _, fd := range open {
			err = errors.Join(err, unix.Close(fd))
		}
	}()
	for _, opener := range c.openers(what.mounts, userns) {
		fd, err := opener()
		if err != nil {
			return err
		}
		open = append(open, fd)
	}
	return sendAll(int(what.socket.Fd()), append(slices.Clone(open), what.files))
}

// openers open what is shown, in the order of its numbers.
func (c *Cell) openers(mounts []openMount, userns int) (list []func() (int, error)) {
	for _, m := range mounts {
		if m.disk {
			list = append(list, func() (int, error) { return c.diskMount(m.Source) })
			continue
		}
		list = append(list, func() (int, error) { return m.open(userns) })
	}
	tree := c.base.tree
	for _, layer := range tree.Layers {
		list = append(list, func() (int, error) { return openImage(layer, unix.AT_RECURSIVE, userns) })
	}
	for _, v := range tree.views {
		list = append(list, func() (int, error) { return openImage(v.Source, 0, userns) })
	}
	return append(list, func() (int, error) { return detach("/proc", quiet|unix.MOUNT_ATTR_NOEXEC) })
}

// openImage opens a path of the image. On a file system that cannot be id-mapped its
// files belong to nobody inside.
func openImage(source string, recursive uint, userns int) (int, error) {
	fd, _, err := openMapped(source, recursive, readOnly, userns)
	if err != nil {
		return -1, &Fault{Part: partStage, Err: err}
	}
	return fd, nil
}

// open opens a mount. A file system that cannot be id-mapped is shown as it is, if
// only for reading.
func (m openMount) open(userns int) (int, error) {
	fd, mapped, err := openMapped(m.Source, unix.AT_RECURSIVE, m.attributes(), userns)
	if err != nil || mapped == nil || !m.Writable {
		return fd, err
	}
	return -1, errors.Join(unix.Close(fd), &sandbox.Error{Class: sandbox.Unavailable, Field: "mounts",
		Reason: fmt.Sprintf("the file system of %s cannot be shown writable with the cell's ids", m.Source),
		Remedy: "mount it read-only, or use a directory on ext4, xfs, btrfs or tmpfs", Err: mapped})
}

// openMapped clones a mount, with attributes and the ids of a user namespace, or
// without the latter: mapped is why.
func openMapped(source string, recursive uint, attributes uint64, userns int) (fd int, mapped, err error) {
	if fd, err = openTree(source, recursive); err != nil {
		return -1, nil, err
	}
	attr := unix.MountAttr{Attr_set: attributes | unix.MOUNT_ATTR_IDMAP, Propagation: unix.MS_PRIVATE, Userns_fd: uint64(userns)}
	const whole = unix.AT_EMPTY_PATH | unix.AT_RECURSIVE
	if mapped = unix.MountSetattr(fd, "", whole, &attr); mapped != nil {
		attr.Attr_set, attr.Userns_fd = attributes, 0
		err = unix.MountSetattr(fd, "", whole, &attr)
	}
	if err != nil {
		unix.Close(fd)
		return -1, mapped, fmt.Errorf("confine: open %s: %w", source, os.NewSyscallError("mount_setattr", err))
	}
	return fd, mapped, nil
}

func openTree(source string, recursive uint) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|recursive)
	if err != nil {
		return -1, fmt.Errorf("confine: open %s: %w", source, os.NewSyscallError("open_tree", err))
	}
	return fd, nil
}

// detach clones a mount, with attributes.
func detach(source string, attributes uint64) (int, error) {
	fd, err := openTree(source, unix.AT_RECURSIVE)
	if err != nil {
		return -1, err
	}
	attr := unix.MountAttr{Attr_set: attributes, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("confine: open %s: %w", source, os.NewSyscallError("mount_setattr", err))
	}
	return fd, nil
}

// sendAll sends descriptors as spawn.Script.Receive takes them.
func sendAll(socket int, fds []int) error {
	for len(fds) > 0 {
		n := min(len(fds), spawn.MaxRights)
		if err := unix.Sendmsg(socket, []byte{0}, unix.UnixRights(fds[:n]...), nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT); err != nil {
			return os.NewSyscallError("sendmsg", err)
		}
		fds = fds[n:]
	}
	return nil
}

// keepSockets gives the sockets their numbers and closes everything else that was
// inherited: a warm cell must not hold the ends of other people's pipes while it
// waits. PID 1 keeps the sockets if it is to hold the cell's net namespace.
func (s script) keepSockets(ours, theirs *os.File, holds bool) {
	flags := uintptr(unix.O_CLOEXEC)
	if holds {
		flags = 0
	}
	s.Call(unix.SYS_DUP3, theirs.Fd(), shownFd, flags)
	s.Call(unix.SYS_DUP3, ours.Fd(), otherFd, flags)
	s.closeFrom(otherFd + 1)
}

// receiveShown appends the taking of what was sent, and shows the image's layers.
func (s script) receiveShown(tree Tree, mounts []openMount) {
	s.part(partStage)
	s.cover()
	s.closeFrom(mountFd) // what was opened for the loopback
	s.Receive(shownFd, tree.shown(mounts), unix.MSG_CMSG_CLOEXEC)
	number := uintptr(mountFd + len(mounts))
	for i := range tree.Layers {
		s.place(number, stageLayer+strconv.Itoa(i))
		number++
	}
	for i := range tree.views {
		s.place(number, stageBind+strconv.Itoa(i))
		number++
	}
	s.place(number, stageProc)
}

// place attaches a detached mount.
func (s script) place(fd uintptr, target string) {
	s.Call(unix.SYS_MOVE_MOUNT, fd, s.String(""), here, s.String(target), unix.MOVE_MOUNT_F_EMPTY_PATH)
}
