package confine

import (
	"os"

	"aether/internal/host/memoryfs"

	"golang.org/x/sys/unix"
)

// What stands at stageOwn: see ownFiles for root's cells.
const (
	ownDev   = stageOwn + "/dev"
	ownEmpty = stageOwn + "/empty" // a file, mounted over files that are masked
	ownBlank = stageOwn + "/blank" // a directory, likewise
)

const ownAttributes = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC

// ownPlaces are the directories of a /dev, and the one that covers others.
var ownPlaces = []string{"dev", "dev/pts", "dev/shm", "blank"}

var ownLinks = [][2]string{{"/proc/self/fd", "fd"}, {"/proc/self/fd/0", "stdin"}, {"/proc/self/fd/1", "stdout"},
	{"/proc/self/fd/2", "stderr"}, {"pts/ptmx", "ptmx"}}

// devices makes a /dev with the harmless nodes, and what covers parts of /proc, for an
// ordinary user's cell. In a user namespace nobody may make nodes, so the host's are
// mounted.
func (s script) devices() {
	s.mount("tmpfs", "."+stageOwn, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "size=64k,mode=755")
	dir := "." + ownDev
	for _, place := range ownPlaces {
		s.mkdir("."+stageOwn+"/"+place, 0o755)
	}
	s.file("." + ownEmpty)
	for _, d := range memoryfs.Devices {
		s.file(dir + "/" + d.Name)
		s.mount("/dev/"+d.Name, dir+"/"+d.Name, "none", unix.MS_BIND, "")
	}
	for _, link := range ownLinks {
		s.symlink(link[0], dir+"/"+link[1])
	}
	// The host's nodes as well: its root without rights owns them.
	s.setattr(here, "."+stageOwn, unix.AT_RECURSIVE, ownAttributes)
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
