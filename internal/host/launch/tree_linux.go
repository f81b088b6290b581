package launch

import (
	"encoding/binary"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"aether/internal/host/spawn"
	"aether/internal/host/views"
	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// Tree is the root file system of a sandbox.
type Tree struct {
	// Layers are directories of the host, lowest first; together they have a
	// directory for each of Binds.
	Layers []string
	// Binds are directories of the host shown read-only over the layers.
	Binds []Bind
	// UpperBytes bounds what can be written, which is kept in memory.
	UpperBytes int64
	// Mounts are paths of the host that were asked for.
	Mounts []sandbox.Mount
	// Aside has them beside the root and not in it, for programs that mount them
	// themselves: see Host.Aside.
	Aside bool
	// Shown are files of the host beside the root, read-only: see Shown.
	Shown []string
}

// Bind shows a directory of the host inside.
type Bind = views.Bind

// Places on a stage.
const (
	rootPlace   = "m"
	upperPlace  = "t"
	dataPlace   = "t/u"
	sharedPlace = "t/s"
	layerPlace  = "l"
	bindPlace   = "b"
	shownPlace  = "x"
	asidePlace  = "a"
	devicePlace = "d"
	nonePlace   = "n" // an empty directory, the lowest layer of views
)

// Root is where a program with a Tree finds the root file system.
func (h *Host) Root() string { return filepath.Join(h.dir, rootPlace) }

// Upper is where what was written to the root is, with records of the overlay in user.overlay.
func (h *Host) Upper() string { return filepath.Join(h.dir, dataPlace) }

// Shared is where it finds an empty directory, for /dev/shm, that is bounded
// together with what is written to the root.
func (h *Host) Shared() string { return filepath.Join(h.dir, sharedPlace) }

// Shown is where it finds the file i of Tree.Shown.
func (h *Host) Shown(i int) string { return filepath.Join(h.dir, shownPlace+strconv.Itoa(i)) }

// Aside is where it finds the mount i of a Tree with Aside.
func (h *Host) Aside(i int) string { return filepath.Join(h.dir, asidePlace+strconv.Itoa(i)) }

func (t *Tree) size() int {
	size := 8 << 10
	for _, layer := range t.Layers {
		size += 2*len(layer) + 256
	}
	for _, bind := range t.Binds {
		size += 2*(len(bind.Source)+len(bind.Target)) + 512
	}
	for _, m := range t.Mounts {
		size += len(m.Source) + 256 + len(m.Target)*(strings.Count(m.Target, "/")+2)
	}
	for _, file := range t.Shown {
		size += len(file) + 256
	}
	return size
}

const (
	quiet    = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	readOnly = quiet | unix.MOUNT_ATTR_RDONLY
	here     = ^uintptr(99) // AT_FDCWD
)

// script adds the calls of this package to spawn.Script.
type script struct{ *spawn.Script }

// becomeRoot takes the rights that a new user namespace gives: those who make it
// have none of its ids yet, unless theirs is the only one.
func (s script) becomeRoot(single bool) {
	if !single {
		s.Call(unix.SYS_SETGROUPS, 0, 0)
		s.Call(unix.SYS_SETRESGID, 0, 0, 0)
		s.Call(unix.SYS_SETRESUID, 0, 0, 0)
	}
}

// tree appends the making of the root on the directory dir. What the child opens for that has
// numbers from first on.
func (s script) tree(dir string, tree *Tree, opened *openTree, first uintptr) {
	s.mount("none", "/", "none", unix.MS_REC|unix.MS_PRIVATE, "")
	for i, p := range opened.all() {
		if p.own < 0 {
			s.openPart(p, first+uintptr(i))
		}
	}
	s.mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m,mode=755")
	s.chdir(dir)
	s.mkdir(rootPlace)
	s.mkdir(nonePlace)
	s.ownDevices(opened.devices)
	s.upper(tree.UpperBytes)
	for i := range opened.layers {
		s.attach(&opened.layers[i], layerPlace+strconv.Itoa(i), true)
	}
	s.mount("overlay", rootPlace, "overlay", unix.MS_NOSUID|unix.MS_NODEV, overlayOptions(len(opened.layers)))
	for i, v := range opened.views {
		s.view(&opened.binds[i], v, bindPlace+strconv.Itoa(i))
	}
	for i := range opened.shown {
		s.attach(&opened.shown[i], shownPlace+strconv.Itoa(i), false)
	}
	if !tree.Aside {
		s.asked(tree.Mounts, opened.mounts)
		return
	}
	for i := range opened.mounts {
		s.attach(&opened.mounts[i], asidePlace+strconv.Itoa(i), opened.mounts[i].directory)
	}
}

// view shows what is a directory through an overlay of the sandbox's own, of which
// nothing can be changed. An overlay has two layers at least.
func (s script) view(p *part, v views.View, place string) {
	target := rootPlace + path.Clean("/"+v.Target)
	if v.File || v.Itself {
		s.move(p, target)
		return
	}
	s.attach(p, place, true)
	s.mount("overlay", target, "overlay", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "lowerdir="+place+":"+nonePlace+",userxattr")
}

func (s script) upper(size int64) {
	s.mkdir(upperPlace)
	s.mount("tmpfs", upperPlace, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%d,nr_inodes=%d,mode=755", size, size/4096+1024))
	s.mkdir(dataPlace)
	s.mkdir(upperPlace + "/w")
	s.Call(unix.SYS_MKDIRAT, here, s.String(sharedPlace), 0o1777)
}

func overlayOptions(layers int) string {
	var lower []string
	for i := layers - 1; i >= 0; i-- {
		lower = append(lower, layerPlace+strconv.Itoa(i))
	}
	return "lowerdir=" + strings.Join(lower, ":") + ",upperdir=" + dataPlace + ",workdir=" + upperPlace + "/w,userxattr"
}

// asked appends the mounts that were asked for. The image becomes the root while
// their targets are looked up, so that its links lead nowhere else.
func (s script) asked(mounts []sandbox.Mount, parts []part) {
	if len(mounts) == 0 {
		return
	}
	outside := s.Call(unix.SYS_OPENAT, here, s.String("/"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	s.Call(unix.SYS_CHROOT, s.String(rootPlace))
	s.chdir("/")
	for i, m := range mounts {
		s.mountPoint(path.Clean(m.Target), parts[i].directory)
		s.move(&parts[i], m.Target)
	}
	outside.Into(s.Call(unix.SYS_FCHDIR, 0), 0)
	s.Call(unix.SYS_CHROOT, s.String("."))
}

// mountPoint makes what is missing of a target; what exists is fine.
func (s script) mountPoint(target string, directory bool) {
	for i, r := range target[1:] {
		if r == '/' {
			s.mkdir(target[:i+1]).MayFail()
		}
	}
	if directory {
		s.mkdir(target).MayFail()
	} else {
		s.file(target).MayFail()
	}
}

// openPart appends the opening of a part by the child itself, which must be done
// before anything covers it. It may have its number by chance, which is refused: whether it
// has it, the next step finds out.
func (s script) openPart(p *part, as uintptr) {
	open := s.Call(unix.SYS_OPEN_TREE, here, s.String(p.source), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|p.recursive())
	open.Into(s.Call(unix.SYS_DUP3, 0, as, unix.O_CLOEXEC).MayFail(), 0)
	s.setattr(as, p.attributes)
	p.inside = as
}

// attach appends the showing of a part at a new place.
func (s script) attach(p *part, place string, directory bool) {
	if directory {
		s.mkdir(place)
	} else {
		s.file(place)
	}
	s.move(p, place)
}

func (s script) move(p *part, target string) {
	s.Call(unix.SYS_MOVE_MOUNT, p.inside, s.String(""), here, s.String(target), unix.MOVE_MOUNT_F_EMPTY_PATH)
}

func (s script) mount(source, target, kind string, flags uintptr, data string) {
	s.Call(unix.SYS_MOUNT, s.String(source), s.String(target), s.String(kind), flags, s.String(data))
}

func (s script) mkdir(name string) spawn.Step {
	return s.Call(unix.SYS_MKDIRAT, here, s.String(name), 0o755)
}

func (s script) file(name string) spawn.Step {
	return s.Call(unix.SYS_MKNODAT, here, s.String(name), unix.S_IFREG|0o644, 0)
}

func (s script) chdir(name string) { s.Call(unix.SYS_CHDIR, s.String(name)) }

// setattr sets attributes of a detached mount.
func (s script) setattr(fd uintptr, set uint64) {
	address, attr := s.Bytes(unix.MOUNT_ATTR_SIZE_VER0)
	binary.LittleEndian.PutUint64(attr, set)
	s.Call(unix.SYS_MOUNT_SETATTR, fd, s.String(""), unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, address, unix.MOUNT_ATTR_SIZE_VER0)
}
