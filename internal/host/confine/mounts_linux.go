package confine

import (
	"errors"
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
// mount (see show), because a stage shows nothing of the host; the cell of an
// ordinary user does so itself, because only in its own user namespace may it.
type openMount struct {
	Mount
	disk bool // not shown, but where the cell's writes go
}

// checkMounts says what a cell is shown, after the disk for its writes if it has one.
func checkMounts(config Config) (list []openMount, err error) {
	if len(config.Mounts) >= maxMounts {
		return nil, sandbox.Invalidf("mounts", "%d are more than %d", len(config.Mounts), maxMounts-1)
	}
	if config.Disk != "" {
		list = append(list, openMount{Mount: Mount{Source: config.Disk, Writable: true, directory: true}, disk: true})
	}
	for _, m := range config.Mounts {
		info, err := os.Stat(m.Source)
		if err != nil {
			return nil, sandbox.Invalidf("mounts", "%v", err)
		}
		m.directory = info.IsDir()
		list = append(list, openMount{Mount: m})
	}
	return list, nil
}

func (m Mount) attributes() uint64 {
	if m.Writable {
		return quiet
	}
	return readOnly
}

// Descriptors of mounts. In a script they have known numbers from mountFd on; what is
// copied out of the way is above all of them.
const (
	mountFd     = otherFd + 1
	inheritedFd = mountFd + maxMounts
	maxMounts   = 64
)

// openMounts appends the opening of host paths by the cell itself, before its
// stage hides them.
func (s script) openMounts(list []openMount) {
	s.closeFrom(mountFd)
	for i, m := range list {
		s.Call(unix.SYS_OPEN_TREE, here, s.String(m.Source), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		s.setattr(uintptr(mountFd+i), "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, m.attributes())
	}
}

// attachMounts appends the showing of host paths. The cell's root is its own by now, so
// that links of the image in a target's path lead nowhere but into the image.
func (s script) attachMounts(list []openMount) {
	if len(list) > 0 {
		s.part(partMounts)
	}
	for i, m := range list {
		if m.disk {
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
