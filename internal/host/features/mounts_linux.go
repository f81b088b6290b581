package features

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"aether/internal/host/spawn"
)

func surveyMounts(context.Context) Facility {
	f := Facility{Name: "mount calls", Required: true, Detail: "open_tree, mount_setattr, move_mount",
		Cost: "host directories cannot be shown read-only without races", Remedy: "Linux 5.12 or newer"}
	return Judge(f, try(unix.CLONE_NEWUSER|unix.CLONE_NEWNS, readOnlyCopy))
}

// readOnlyCopy puts a read-only picture of /usr on a new tmpfs. The tree has the
// lowest descriptor, as none is open.
func readOnlyCopy(s *spawn.Script) {
	const tree = 3
	private(s)
	place := s.String(os.TempDir() + "/usr")
	mount(s, "none", os.TempDir(), "tmpfs", 0, "")
	s.Call(unix.SYS_MKDIRAT, at(unix.AT_FDCWD), place, 0o755)
	s.Call(unix.SYS_CLOSE_RANGE, tree, ^uintptr(0)&0xffffffff, 0)
	s.Call(unix.SYS_OPEN_TREE, at(unix.AT_FDCWD), s.String("/usr"), unix.OPEN_TREE_CLONE)
	attr, mem := s.Bytes(int(unsafe.Sizeof(unix.MountAttr{})))
	(*unix.MountAttr)(unsafe.Pointer(&mem[0])).Attr_set = unix.MOUNT_ATTR_RDONLY
	s.Call(unix.SYS_MOUNT_SETATTR, tree, s.String(""), unix.AT_EMPTY_PATH, attr, uintptr(len(mem)))
	s.Call(unix.SYS_MOVE_MOUNT, tree, s.String(""), at(unix.AT_FDCWD), place, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

func surveyOverlay(context.Context) Facility {
	f := Facility{Name: "overlay", Required: true, Detail: "mounts in a user namespace",
		Cost: "no writable layer over a shared image", Remedy: "modprobe overlay, and Linux 5.11 or newer"}
	err := try(unix.CLONE_NEWUSER|unix.CLONE_NEWNS, overlay)
	if err != nil && os.Geteuid() == 0 && try(unix.CLONE_NEWNS, overlay) == nil {
		f.State, f.Detail = Limited, "mounts for root only: "+err.Error()
		f.Cost = "ordinary users have no writable layer over a shared image"
		return f
	}
	return Judge(f, err)
}

// overlay mounts one whose writes stay in memory, as a sandbox's root is.
func overlay(s *spawn.Script) {
	private(s)
	dir := os.TempDir()
	mount(s, "none", dir, "tmpfs", 0, "")
	for _, name := range []string{"/upper", "/work", "/root"} {
		s.Call(unix.SYS_MKDIRAT, at(unix.AT_FDCWD), s.String(dir+name), 0o755)
	}
	mount(s, "overlay", dir+"/root", "overlay", 0, "lowerdir=/usr,upperdir="+dir+"/upper,workdir="+dir+"/work")
}

// OverlayTmpfile says whether an overlay makes files without a name (O_TMPFILE),
// as it does from Linux 6.10 on.
var OverlayTmpfile = sync.OnceValue(func() bool {
	return tryMounted(func(s *spawn.Script) {
		overlay(s)
		s.Call(unix.SYS_OPENAT, at(unix.AT_FDCWD), s.String(os.TempDir()+"/root"), unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	}) == nil
})

// TmpfsUserAttributes says whether files in memory have attributes of users, as
// they do from Linux 6.6 on. Without them an overlay that writes to memory cannot
// say that a directory hides the one below it.
var TmpfsUserAttributes = sync.OnceValue(func() bool {
	return tryMounted(func(s *spawn.Script) {
		private(s)
		mount(s, "none", os.TempDir(), "tmpfs", 0, "")
		s.Call(unix.SYS_SETXATTR, s.String(os.TempDir()), s.String("user.overlay.opaque"), s.String("y"), 1, 0)
	}) == nil
})

// tryMounted tries something with mounts as a cell makes them: in a user namespace
// or, where there are none, as root.
func tryMounted(calls func(*spawn.Script)) error {
	err := try(unix.CLONE_NEWUSER|unix.CLONE_NEWNS, calls)
	if err != nil && os.Geteuid() == 0 {
		return try(unix.CLONE_NEWNS, calls)
	}
	return err
}

func surveyMemoryFiles(context.Context) Facility {
	f := Facility{Name: "tmpfs attributes", State: OK, Detail: "directories of an image can be removed and replaced"}
	if !TmpfsUserAttributes() {
		f.State, f.Detail = Limited, "files in memory have no attributes of users"
		f.Cost = "in sandboxes that write to memory no directory of the image can be removed that has something in it, and none be made " +
			"where the image has something else (EIO)"
		f.Remedy = "Linux 6.6 or newer, or aether run --on-disk"
	}
	return f
}

func surveyIDMap(context.Context) Facility {
	f := Facility{Name: "id-mapped mounts", Detail: "work on the root file system",
		Cost: "shared files show the host's owners, and an image's layers cannot be shared between users", Remedy: "run as root on Linux 5.12 or newer"}
	return Judge(f, idMap())
}

// idMap shows / with other owners, on a mount that is attached nowhere.
func idMap() (err error) {
	userns, err := scratchUserns()
	if err != nil {
		return err
	}
	defer userns.Close()
	tree, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("open_tree", err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(userns.Fd())}
	err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr)
	return errors.Join(os.NewSyscallError("mount_setattr", err), unix.Close(tree))
}

// scratchUserns is the descriptor of a user namespace that nobody is in.
func scratchUserns() (*os.File, error) {
	s, err := spawn.NewScript(0)
	if err != nil {
		return nil, err
	}
	mapIDs(s)
	opened := s.Word()
	s.Wait(opened, trialTime)
	s.Exit()
	started, err := s.Start(unix.CLONE_NEWUSER, -1)
	if err != nil {
		return nil, errors.Join(err, s.Free())
	}
	file, openErr := os.Open(fmt.Sprintf("/proc/%d/ns/user", started.Pid()))
	opened.Set()
	child, err := started.Await()
	if err == nil {
		_, err = child.Wait()
	}
	return file, errors.Join(openErr, err, s.Free())
}
