package confine

import (
	"strconv"

	"aether/internal/host/views"

	"golang.org/x/sys/unix"
)

// Tree is a root file system to confine into.
type Tree struct {
	// Layers are directories of the host, lowest first.
	Layers []string
	// Binds are directories of the host shown read-only over the layers.
	Binds []Bind

	views []views.View // of the binds
}

// Bind shows a directory of the host inside.
type Bind = views.Bind

// Places on a stage. Everything there is an ancestor of nothing: a cell sees
// only what is mounted below /m.
const (
	stageAgain = "/h" // the stage itself once more: see cover
	stageLayer = "/l" // /l0, /l1, ...
	stageBind  = "/b"
	stageOwn   = "/d" // what every cell has one of: see devices and ownFiles
	stageUpper = "/t"
	stageRoot  = "/m"
	stageProc  = "/p" // a visible, unmasked /proc, which the kernel wants to see before a user namespace mounts its own
	stageNone  = "/f" // an empty directory, the lowest layer of views
)

const (
	quiet    = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	readOnly = quiet | unix.MOUNT_ATTR_RDONLY
)

// stage appends the making of a stage on the directory dir, in a mount
// namespace of its own, and ends with the stage as root. On one that root makes
// for many cells nothing is mounted: each cell is shown the image with its own ids.
func (s script) stage(dir string, tree Tree, many bool) {
	s.part(partStage)
	s.Call(unix.SYS_UMASK, 0)
	s.mount("none", "/", "none", unix.MS_REC|unix.MS_PRIVATE, "")
	s.mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID, "size=1m,mode=755")
	s.chdir(dir)
	for _, place := range []string{stageAgain, stageOwn, stageUpper, stageRoot, stageProc, stageNone} {
		s.mkdir("."+place, 0o755)
	}
	for i, layer := range tree.Layers {
		place := "." + stageLayer + strconv.Itoa(i)
		s.mkdir(place, 0o755)
		if !many {
			s.show(layer, place, unix.AT_RECURSIVE)
		}
	}
	s.showViews(tree.views, many)
	if !many {
		s.devices()
		s.bind("/proc", "."+stageProc)
	}
	s.setattr(here, ".", 0, readOnly)
	s.pivot()
}

// show attaches a path of the host to the stage, read-only, and with AT_RECURSIVE
// also what is mounted below it.
func (s script) show(source, place string, recursive uintptr) {
	s.Call(unix.SYS_CLOSE, stageFd).MayFail()
	s.Call(unix.SYS_OPEN_TREE, here, s.String(source), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|recursive)
	s.setattr(stageFd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, readOnly)
	s.Call(unix.SYS_MOVE_MOUNT, stageFd, s.String(""), here, s.String(place), unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// What a cell may have of things that the kernel counts for the whole host
// (terminals, 4096 by default) or also for the user who made the cell's user
// namespace (inotify instances, 128 by default).
const (
	mostTerminals = "256"
	mostWatchers  = "32"
)

// root appends the making of a cell's root file system from a stage. The cell's
// own writes stay in memory, bounded by size, or go to the disk among the mounts.
func (s script) root(c *Cell, mounts []openMount) {
	tree, proc := c.base.tree, c.host.proc
	s.part(partRoot)
	s.Call(unix.SYS_UMASK, 0)
	s.Call(unix.SYS_UNSHARE, unix.CLONE_NEWCGROUP)
	s.upper(c, mounts)
	s.keepUpper()
	s.mount("overlay", stageRoot, "overlay", unix.MS_NOSUID|unix.MS_NODEV, overlayOptions(tree, stageUpper))
	s.attachViews(tree.views)
	s.bind(ownDev, stageRoot+"/dev")
	s.mount("devpts", stageRoot+"/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,max="+mostTerminals)
	s.sharedMemory(mounts)
	s.mount("proc", stageRoot+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, proc.options)
	s.writeFile(stageRoot+"/proc/sys/user/max_inotify_instances", mostWatchers)
	if s.part(partMasks) {
		s.mask(stageRoot+"/proc", proc.masks)
	}
	s.part(partPivot)
	if c.identity.Single {
		s.chdir(stageRoot)
		s.pivot()
		return
	}
	s.uncover()
}

// Root's cells leave their stage without pivot_root, which looks at every process of the
// host with a lock held that each new process wants. Their mount namespace begins as the
// stage with nothing mounted on it. They mount it once more at one of its places, work there
// (cover), move the root that they have made onto the bare stage, and unmount the rest
// (uncover). So what is left below the cell's root is a read-only file system with empty
// directories. No path leads to it, as none leads to
// the kernel's rootfs below that of every host.

// cover has the script work on the stage once more. The working directory stays on the
// bare one.
func (s script) cover() {
	s.chdir("/")
	s.mount("/", stageAgain, "none", unix.MS_BIND, "")
	s.Call(unix.SYS_CHROOT, s.String(stageAgain))
}

// uncover makes stageRoot the root, and unmounts all that was mounted besides.
func (s script) uncover() {
	open := s.Call(unix.SYS_OPENAT, here, s.String(stageRoot), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	s.Call(unix.SYS_MOVE_MOUNT, here, s.String(stageRoot), here, s.String("."), 0)
	s.Call(unix.SYS_UMOUNT2, s.String("."+stageAgain), unix.MNT_DETACH)
	open.Into(s.Call(unix.SYS_FCHDIR, 0), 0)
	s.Call(unix.SYS_CHROOT, s.String("."))
	s.chdir("/")
}

func overlayOptions(tree Tree, up string) string {
	return lowerLayers(tree) + ",upperdir=" + up + "/u,workdir=" + up + "/w,userxattr"
}

// lowerLayers is the option that names the layers of an image, the highest first.
func lowerLayers(tree Tree) string {
	lower := ""
	for i := len(tree.Layers) - 1; i >= 0; i-- {
		if lower != "" {
			lower += ":"
		}
		lower += stageLayer + strconv.Itoa(i)
	}
	return "lowerdir=" + lower
}
