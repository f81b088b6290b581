package confine

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// Mount shows a path of the host inside a cell.
type Mount struct {
	Source, Target string
	Writable       bool
	directory      bool
}

// openMount is a host path that a cell will see. Root opens it as a detached
// mount, because a stage shows nothing of the host; the cell of an ordinary user
// does so itself, because only in its own user namespace may it.
type openMount struct {
	Mount
	fd   int
	ours bool // opened here, to be closed here
	disk bool // not shown, but where the cell's writes go
	// devices says that it is the cell's view of the stage's devices.
	devices bool
}

// openMounts opens what a cell is shown, after the disk for its writes if it has
// one. What it has opened is to be closed even if it fails.
func openMounts(h *Host, config Config) (open []openMount, err error) {
	if len(config.Mounts) >= maxMounts {
		return nil, sandbox.Invalidf("mounts", "%d are more than %d", len(config.Mounts), maxMounts-1)
	}
	if config.Disk != "" {
		disk, err := h.diskMount(config.Disk)
		if err != nil {
			return nil, err
		}
		open = append(open, disk)
	}
	for _, m := range config.Mounts {
		o, err := h.openMount(m)
		if err != nil {
			return open, err
		}
		open = append(open, o)
	}
	if h.Identity.Single {
		return open, nil
	}
	place, err := h.placeForDevices()
	return append(open, place), err
}

func (h *Host) openMount(m Mount) (openMount, error) {
	info, err := os.Stat(m.Source)
	if err != nil {
		return openMount{}, sandbox.Invalidf("mounts", "%v", err)
	}
	m.directory = info.IsDir()
	o := openMount{Mount: m, ours: !h.Identity.Single}
	if o.ours {
		o.fd, err = h.detached(m)
	}
	return o, err
}

func closeMounts(list []openMount) {
	for _, m := range list {
		if m.ours {
			unix.Close(m.fd)
		}
	}
}

// detached clones the mount and gives it the cell's view of ids. A file system
// that cannot be id-mapped is shown as it is, if only for reading.
func (h *Host) detached(m Mount) (int, error) {
	fd, err := detach(m.Source, m.attributes())
	if err != nil {
		return -1, err
	}
	mapping := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(h.userns.Fd())}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &mapping); err != nil && m.Writable {
		unix.Close(fd)
		return -1, &sandbox.Error{Class: sandbox.Unavailable, Field: "mounts",
			Reason: fmt.Sprintf("the file system of %s cannot be shown writable with the cell's ids", m.Source),
			Remedy: "mount it read-only, or use a directory on ext4, xfs, btrfs or tmpfs", Err: err}
	}
	return fd, nil
}

func (m Mount) attributes() uint64 {
	if m.Writable {
		return quiet
	}
	return readOnly
}

// Descriptors of mounts. In a script they have known numbers from mountFd on;
// those that this program opened are inherited above all of these.
const (
	mountFd     = stageFd + 1
	inheritedFd = mountFd + maxMounts + 1 // the last is that of the devices
	maxMounts   = 64
)

// keepMounts moves inherited mounts to their numbers and closes everything else
// that was inherited: a warm cell must not hold the ends of other people's pipes
// while it waits.
func (s script) keepMounts(list []openMount) {
	s.Call(unix.SYS_DUP3, initFd, stageFd, unix.O_CLOEXEC) // the place of what the stage opens
	kept := uintptr(mountFd)
	for i, m := range list {
		if m.ours {
			s.Call(unix.SYS_DUP3, uintptr(m.fd), uintptr(mountFd+i), unix.O_CLOEXEC)
			kept++
		}
	}
	s.closeFrom(kept)
}

// openMounts appends the opening of host paths by the cell itself, before its
// stage hides them.
func (s script) openMounts(list []openMount) {
	s.closeFrom(mountFd)
	for i, m := range list {
		s.Call(unix.SYS_OPEN_TREE, here, s.String(m.Source), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		s.setattr(uintptr(mountFd+i), "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, m.attributes(), -1)
	}
}

// attachMounts appends the showing of host paths. It follows pivot_root, so
// that links of the image in a target's path lead nowhere but into the image.
func (s script) attachMounts(list []openMount) {
	if len(list) > 0 {
		s.part(partMounts)
	}
	for i, m := range list {
		if m.disk || m.devices {
			continue
		}
		s.mountPoint(m)
		s.Call(unix.SYS_MOVE_MOUNT, uintptr(mountFd+i), s.String(""), here, s.String(m.Target), unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
}

// blame finds those who asked for mounts at fault if one cannot be shown.
func (s script) blame(err error) error {
	err = s.locate(err)
	var fault *Fault
	short := errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.ENOSPC) // of the host's
	if !errors.As(err, &fault) || fault.Part != partMounts || short {
		return err
	}
	return &sandbox.Error{Class: sandbox.Invalid, Field: "mounts", Reason: "a target is in no place of the image that can be mounted on", Err: err}
}

// mountPoint makes what is missing of a target's path; what exists is fine.
func (s script) mountPoint(m openMount) {
	clean := path.Clean(m.Target)
	for i, r := range clean[1:] {
		if r == '/' {
			s.mkdir(clean[:i+1], 0o755).MayFail()
		}
	}
	if m.directory {
		s.mkdir(clean, 0o755).MayFail()
	} else if !strings.HasSuffix(m.Target, "/") {
		s.file(clean).MayFail()
	}
}
