package confine

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// devices are the nodes of a cell's /dev: none of them reaches hardware.
var devices = []struct {
	name         string
	major, minor uint32
}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}}

// What stands at stageOwn.
const (
	ownDev   = stageOwn + "/dev"
	ownEmpty = stageOwn + "/empty" // a file, mounted over files that are masked
	ownBlank = stageOwn + "/blank" // a directory, likewise
)

const ownAttributes = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC

// devices makes a /dev with the harmless nodes, and what covers parts of /proc.
// Root makes the nodes; in a user namespace nobody may, so the host's are mounted.
func (s script) devices(own bool) {
	if !own {
		s.mount("tmpfs", "."+stageOwn, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "size=64k,mode=755")
	}
	dir := "." + ownDev
	for _, place := range []string{dir, dir + "/pts", dir + "/shm", "." + ownBlank} {
		s.mkdir(place, 0o755)
	}
	s.file("." + ownEmpty)
	for _, d := range devices {
		if own {
			s.Call(unix.SYS_MKNODAT, here, s.String(dir+"/"+d.name), unix.S_IFCHR|0o666, uintptr(unix.Mkdev(d.major, d.minor)))
			continue
		}
		s.file(dir + "/" + d.name)
		s.mount("/dev/"+d.name, dir+"/"+d.name, "none", unix.MS_BIND, "")
	}
	for _, link := range [][2]string{{"/proc/self/fd", "fd"}, {"/proc/self/fd/0", "stdin"}, {"/proc/self/fd/1", "stdout"},
		{"/proc/self/fd/2", "stderr"}, {"pts/ptmx", "ptmx"}} {
		s.symlink(link[0], dir+"/"+link[1])
	}
	if !own { // the host's nodes as well: its root without rights owns them
		s.setattr(here, "."+stageOwn, unix.AT_RECURSIVE, ownAttributes)
	}
}

// ownNull appends the replacing of standard descriptors that are the null device of
// the host by the cell's, for a cell whose processes own the host's and would change
// it through the descriptor.
func (s script) ownNull(h *Host, command Command) {
	if !h.Identity.isRoot() {
		return
	}
	for fd, file := range []*os.File{command.Stdin, command.Stdout, command.Stderr} {
		if file == nil {
			open := s.Call(unix.SYS_OPENAT, here, s.String("/dev/null"), unix.O_RDWR|unix.O_CLOEXEC, 0)
			dup := s.Call(unix.SYS_DUP3, 0, uintptr(fd), 0)
			open.Into(dup, 0)
		}
	}
	s.closeFrom(3)
}

// ownDevices appends the covering of the stage's devices, which all cells of an
// image see, by the cell's own view of them. The stage of an ordinary user's cell
// is its own already.
func (s script) ownDevices(c *Cell, mounts []openMount) {
	if !c.identity.Single {
		s.place(uintptr(mountFd+c.base.tree.shown(mounts)-1), stageOwn)
	}
}

// viewDevices gives a view of the stage's devices, as a mount. It is for a thread
// that stands on the stage. Nobody but root can make it: devices cannot be opened on
// what a user namespace has mounted.
func viewDevices() (int, error) {
	context, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("devices: %w", os.NewSyscallError("fsopen", err))
	}
	defer unix.Close(context)
	err = errors.Join(unix.FsconfigSetString(context, "lowerdir", stageOwn+":"+stageNone), unix.FsconfigCreate(context))
	if err != nil {
		return -1, fmt.Errorf("devices: %w", os.NewSyscallError("fsconfig", err))
	}
	mount, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, ownAttributes)
	if err != nil {
		return -1, fmt.Errorf("devices: %w", os.NewSyscallError("fsmount", err))
	}
	return mount, nil
}
