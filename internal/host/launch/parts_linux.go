package launch

import (
	"fmt"
	"os"

	"aether/internal/host/views"
	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// part is one path of the host that a tree shows.
type part struct {
	source     string
	attributes uint64
	mapped     bool // must be shown with the ids inside, or not at all
	alone      bool // without what is mounted below it
	directory  bool
	own        int     // the detached mount, if it was opened here, or -1
	inside     uintptr // its number in the child
}

// openTree is a tree whose parts are ready to be attached.
type openTree struct {
	layers, binds, mounts, shown []part
	views                        []views.View // of the binds
	devices                      int          // a mount with device nodes of the sandbox's own, or -1
}

func (t *openTree) all() []*part {
	var list []*part
	for _, group := range [][]part{t.layers, t.binds, t.mounts, t.shown} {
		for i := range group {
			list = append(list, &group[i])
		}
	}
	return list
}

func (t *openTree) close() {
	if t.devices >= 0 {
		unix.Close(t.devices)
	}
	for _, p := range t.all() {
		if p.own >= 0 {
			unix.Close(p.own)
		}
	}
}

// open makes detached mounts of the parts. Only root may, and only root needs it:
// the child of an ordinary user has the rights in its own namespaces.
func (h *Host) open(tree *Tree, id identity) (*openTree, error) {
	t := &openTree{devices: -1}
	if tree == nil {
		return t, nil
	}
	var err error
	if t.views, err = views.Of(tree.Binds, h.Single); err != nil {
		return t, err
	}
	for _, layer := range tree.Layers {
		t.layers = append(t.layers, part{source: layer, attributes: readOnly, own: -1})
	}
	for _, v := range t.views {
		t.binds = append(t.binds, part{source: v.Source, attributes: readOnly, alone: !v.Itself, own: -1})
	}
	for _, file := range tree.Shown {
		t.shown = append(t.shown, part{source: file, attributes: readOnly, own: -1})
	}
	for _, m := range tree.Mounts {
		p, err := mountPart(m)
		if err != nil {
			return t, err
		}
		t.mounts = append(t.mounts, p)
	}
	if h.Single {
		return t, nil
	}
	for _, p := range t.all() {
		if err := p.detach(id.userns); err != nil {
			return t, err
		}
	}
	t.devices, err = makeDevices()
	return t, err
}

func mountPart(m sandbox.Mount) (part, error) {
	info, err := os.Stat(m.Source)
	if err != nil {
		return part{}, sandbox.Invalidf("mounts", "%v", err)
	}
	p := part{source: m.Source, attributes: readOnly, directory: info.IsDir(), own: -1}
	if m.Writable {
		p.attributes, p.mapped = quiet, true
	}
	return p, nil
}

// recursive is how a mount is cloned.
func (p *part) recursive() uintptr {
	if p.alone {
		return 0
	}
	return unix.AT_RECURSIVE
}

// detach clones a mount and gives it the view of ids inside. A file system that
// cannot be id-mapped is shown as it is, if only for reading.
func (p *part) detach(userns *os.File) (err error) {
	p.own, err = unix.OpenTree(unix.AT_FDCWD, p.source, uint(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|p.recursive()))
	if err != nil {
		p.own = -1
		return fmt.Errorf("open %s: %w", p.source, err)
	}
	p.inside = uintptr(p.own)
	attr := unix.MountAttr{Attr_set: p.attributes, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(p.own, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("show %s: %w", p.source, err)
	}
	mapping := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(userns.Fd())}
	err = unix.MountSetattr(p.own, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &mapping)
	if err != nil && p.mapped {
		return &sandbox.Error{Class: sandbox.Unavailable, Field: "mounts",
			Reason: fmt.Sprintf("the file system of %s cannot be shown writable with the sandbox's ids", p.source),
			Remedy: "mount it read-only, or use a directory on ext4, xfs, btrfs or tmpfs", Err: err}
	}
	return nil
}
