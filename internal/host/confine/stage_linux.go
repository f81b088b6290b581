package confine

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Tree is a root file system to confine into.
type Tree struct {
	// Layers are directories of the host, lowest first.
	Layers []string
	// Binds are directories of the host shown read-only over the layers.
	Binds []Bind
}

// Bind shows a directory of the host inside.
type Bind struct{ Source, Target string }

// Places on a stage. Everything there is an ancestor of nothing: a cell sees
// only what is mounted below /m.
const (
	stageLayer = "/l" // /l0, /l1, ...
	stageBind  = "/b"
	stageDev   = "/d"
	stageUpper = "/t"
	stageRoot  = "/m"
	stageProc  = "/p"
	stageEmpty = "/e" // an empty file, mounted over files that are masked
	stageBlank = "/f" // an empty directory, likewise
)

// devices are the nodes of a cell's /dev: none of them reaches hardware.
var devices = []struct {
	name         string
	major, minor uint32
}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}}

const (
	quiet    = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	readOnly = quiet | unix.MOUNT_ATTR_RDONLY
)

// stage appends the making of a stage on the directory dir, in a mount
// namespace of its own, and ends with the stage as root. userns is the
// descriptor of the user namespace by which files are id-mapped, or -1.
func (s script) stage(dir string, tree Tree, userns int) {
	s.part(partStage)
	s.Call(unix.SYS_UMASK, 0)
	s.mount("none", "/", "none", unix.MS_REC|unix.MS_PRIVATE, "")
	s.mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID, "size=1m,mode=755")
	s.chdir(dir)
	for _, place := range []string{stageDev, stageUpper, stageRoot, stageProc, stageBlank} {
		s.mkdir("."+place, 0o755)
	}
	s.file("." + stageEmpty)
	for i, layer := range tree.Layers {
		s.show(layer, stageLayer, i, userns)
	}
	for i, bind := range tree.Binds {
		s.show(bind.Source, stageBind, i, userns)
	}
	s.devices(userns >= 0)
	// A visible, unmasked /proc is what the kernel asks for before a user
	// namespace may mount its own.
	s.bind("/proc", "."+stageProc)
	// What covers the masked parts of /proc is on this mount too.
	s.setattr(here, ".", 0, readOnly, -1)
	s.pivot()
}

// show attaches a host directory to the stage, read-only and, with a user
// namespace to go by, id-mapped. A file system that cannot be id-mapped is shown
// all the same; its files then belong to nobody inside.
func (s script) show(source, place string, i, userns int) {
	target := "." + place + strconv.Itoa(i)
	s.mkdir(target, 0o755)
	s.Call(unix.SYS_CLOSE, stageFd).MayFail()
	s.Call(unix.SYS_OPEN_TREE, here, s.String(source), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	s.setattr(stageFd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, readOnly, -1)
	if userns >= 0 {
		s.setattr(stageFd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, unix.MOUNT_ATTR_IDMAP, userns).MayFail()
	}
	s.Call(unix.SYS_MOVE_MOUNT, stageFd, s.String(""), here, s.String(target), unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// devices makes a /dev with the harmless nodes. Root makes the nodes; in a user
// namespace nobody may, so the host's are mounted.
func (s script) devices(own bool) {
	dir := "." + stageDev
	s.mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "size=64k,mode=755")
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
	s.mkdir(dir+"/pts", 0o755)
	s.mkdir(dir+"/shm", 0o755)
	s.setattr(here, dir, 0, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, -1)
}

// mask is a part of /proc that shows or does things to the whole machine.
type mask struct{ name, cover string }

// masked is what container runtimes hide or make read-only, all hidden.
var masked = []string{"acpi", "asound", "bus", "fs", "interrupts", "irq", "kcore", "keys", "latency_stats",
	"sched_debug", "scsi", "sysrq-trigger", "timer_list", "timer_stats"}

// masks keeps what the kernel has, each with what covers it. Files that only
// the host's root may open need no cover, for nobody in a cell is that, unless
// it is the host's root that runs cells with its own id (rootInside).
func masks(rootInside bool) []mask {
	var list []mask
	for _, name := range masked {
		info, err := os.Lstat("/proc/" + name)
		switch {
		case err != nil:
		case info.IsDir():
			list = append(list, mask{name, stageBlank})
		case rootInside || info.Mode().Perm()&0o077 != 0:
			list = append(list, mask{name, stageEmpty})
		}
	}
	return list
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
func (s script) root(tree Tree, masks []mask, mounts []openMount, size int64) {
	s.part(partRoot)
	s.Call(unix.SYS_UMASK, 0)
	s.Call(unix.SYS_UNSHARE, unix.CLONE_NEWCGROUP)
	s.upper(mounts, size)
	s.keepUpper()
	s.mount("overlay", stageRoot, "overlay", unix.MS_NOSUID|unix.MS_NODEV, overlayOptions(tree, stageUpper))
	for i, bind := range tree.Binds {
		s.bind(stageBind+strconv.Itoa(i), stageRoot+bind.Target)
	}
	s.bind(stageDev, stageRoot+"/dev")
	s.mount("devpts", stageRoot+"/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,max="+mostTerminals)
	s.sharedMemory(mounts)
	s.mount("proc", stageRoot+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	s.writeFile(stageRoot+"/proc/sys/user/max_inotify_instances", mostWatchers)
	if s.part(partMasks) {
		s.mask(stageRoot+"/proc", masks)
	}
	s.part(partPivot)
	s.chdir(stageRoot)
	s.pivot()
}

// mask covers what is not a cell's to see in the /proc at proc.
func (s script) mask(proc string, masks []mask) {
	for _, m := range masks {
		s.mount(m.cover, proc+"/"+m.name, "none", unix.MS_BIND, "")
	}
	s.bind(proc+"/sys", proc+"/sys")
	s.setattr(here, proc+"/sys", 0, readOnly|unix.MOUNT_ATTR_NOEXEC, -1)
}

func overlayOptions(tree Tree, up string) string {
	lower := ""
	for i := len(tree.Layers) - 1; i >= 0; i-- {
		if lower != "" {
			lower += ":"
		}
		lower += stageLayer + strconv.Itoa(i)
	}
	return "lowerdir=" + lower + ",upperdir=" + up + "/u,workdir=" + up + "/w,userxattr"
}
