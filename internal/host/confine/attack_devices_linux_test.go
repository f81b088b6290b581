package confine

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// deviceTrials look for device nodes beyond the harmless ones.
func deviceTrials(facts) []trial {
	list := []trial{
		{"a node that is not harmless", unknownNode, nil},
		{"terminals of others", otherTerminals, nil},
		{"make /dev/mem", func() error { return makesNode(unix.S_IFCHR, unix.Mkdev(1, 1)) }, nil},
		{"make a disk", func() error { return makesNode(unix.S_IFBLK, unix.Mkdev(254, 0)) }, nil},
		{"make a whiteout", func() error { return makesNode(unix.S_IFCHR, 0) }, nil},
		{"make a whiteout by renaming", leavesWhiteout, nil},
		{"make a file in /dev", func() error { return made("/dev/x") }, nil},
		// To the mode that they have: an attack that succeeds must not hurt the host.
		{"change /dev/null", func() error { return os.Chmod("/dev/null", 0o666) }, nil},
		{"change the null device given as input", func() error { return unix.Fchmod(0, 0o666) }, nil},
		{"type into a terminal", typesIntoTerminal, noPermission},
	}
	for _, name := range []string{"kvm", "mem", "kmsg", "vda", "sda", "console", "tty0", "tty1", "ttyS0", "fuse", "net/tun", "vhost-net",
		"vsock", "userfaultfd", "loop-control", "mapper/control"} {
		list = append(list, trial{"open " + name, func() error { return opens("/dev/" + name) }, nil})
	}
	return list
}

func opens(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

var harmless = []string{"fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"}

func unknownNode() error {
	entries, err := os.ReadDir("/dev")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !slices.Contains(harmless, e.Name()) {
			return nil
		}
	}
	return errHeld
}

func otherTerminals() error {
	entries, err := os.ReadDir("/dev/pts")
	if err == nil && len(entries) <= 1 { // ptmx
		err = errHeld
	}
	return err
}

// makesNode does so on a plain tmpfs: an overlay has rules of its own, which
// would hide whether ours hold.
func makesNode(kind uint32, device uint64) error {
	return unix.Mknod("/dev/shm/node", kind|0o666, int(device))
}

// leavesWhiteout renames a file such that the kernel leaves the node of a whiteout.
func leavesWhiteout() error {
	const from, to = "/dev/shm/from", "/dev/shm/to"
	if err := os.WriteFile(from, nil, 0o600); err != nil {
		return err
	}
	defer os.Remove(from)
	defer os.Remove(to)
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_WHITEOUT)
}

func typesIntoTerminal() error {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	letter := byte('x')
	return call(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, address(&letter))
}
