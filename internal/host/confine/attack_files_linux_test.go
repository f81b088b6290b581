package confine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

var noPermission = []syscall.Errno{unix.EPERM}

func contains(content, text string) error {
	if strings.Contains(content, text) {
		return nil
	}
	return errHeld
}

// fileTrials look for a file of the host by every path there is.
func fileTrials(f facts) []trial {
	up := strings.Repeat("/..", 40)
	return []trial{
		{"by its path", func() error { return holds(f.File, f.Secret) }, nil},
		{"by dots", func() error { return holds(up+f.File, f.Secret) }, nil},
		{"by dots from a directory", func() error { return belowRoot(up[1:]+f.File, f.Secret) }, nil},
		{"by a link", func() error { return byLink(f) }, nil},
		{"by overlay attributes", func() error { return byRedirect(f) }, nil},
		{"by the root of a process", func() error { return byProcess("root", f) }, nil},
		{"by the working directory of a process", func() error { return byProcess("cwd", f) }, nil},
		{"by chroot", chroot, noPermission},
		{"by handle", byHandle, noPermission},
		{"by an inherited descriptor", inherited, nil},
		{"the stage", stageLeft, nil},
		{"/sys", func() error { return syscallError(os.Stat("/sys/kernel")) }, nil},
		{"write the image's binaries", func() error { return writes("/usr/bin/env", "x") }, nil},
		{"make a file among them", func() error { return made("/usr/bin/aether-attack") }, nil},
	}
}

func syscallError(_ os.FileInfo, err error) error { return err }

func made(path string) error {
	return os.WriteFile(path, []byte("x"), 0o600)
}

func belowRoot(path, text string) error {
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	fd, err := unix.Openat(root, path, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return holds("/proc/self/fd/"+strconv.Itoa(fd), text)
}

func byLink(f facts) error {
	if err := os.Symlink(f.File, "/tmp/link"); err != nil {
		return fmt.Errorf("symlink: %w", err)
	}
	return holds("/tmp/link", f.Secret)
}

// byRedirect asks the overlay to show a directory that is elsewhere.
func byRedirect(f facts) error {
	if err := os.Mkdir("/tmp/redirected", 0o755); err != nil {
		return err
	}
	for _, name := range []string{"user.overlay.redirect", "trusted.overlay.redirect"} {
		_ = unix.Setxattr("/tmp/redirected", name, []byte(filepath.Dir(f.File)), 0) // the next line judges
	}
	return holds("/tmp/redirected/"+filepath.Base(f.File), f.Secret)
}

func byProcess(link string, f facts) error {
	pids, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if holds(pid+"/"+link+f.File, f.Secret) == nil {
			return nil
		}
	}
	return errHeld
}

func chroot() error {
	if err := os.Mkdir("/tmp/jail", 0o755); err != nil {
		return err
	}
	return unix.Chroot("/tmp/jail")
}

// byHandle opens inode 2, which most file systems have as their root.
func byHandle() error {
	handle := unix.NewFileHandle(1, []byte{2, 0, 0, 0, 0, 0, 0, 0})
	_, err := unix.OpenByHandleAt(unix.AT_FDCWD, handle, unix.O_RDONLY)
	return err
}

// inherited passes if there is a descriptor that Go's own runtime did not open.
func inherited() error {
	for fd := 3; fd < 4096; fd++ {
		target, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		if err == nil && !strings.HasPrefix(target, "anon_inode:[event") {
			fmt.Fprintf(os.Stderr, "descriptor %d is %s\n", fd, target)
			return nil
		}
	}
	return errHeld
}

// stageLeft passes if a place of the stage can still be seen.
func stageLeft() error {
	for _, place := range []string{stageLayer + "0", stageBind + "0", stageUpper, stageRoot, stageProc, stageOwn, stageNone} {
		if _, err := os.Lstat(place); err == nil {
			return nil
		}
	}
	return errHeld
}

// mountTrials try to change what is mounted where.
func mountTrials(facts) []trial {
	mount := func(source, target, kind string, flags uintptr) func() error {
		return func() error { return unix.Mount(source, target, kind, flags, "") }
	}
	unmount := func(target string) func() error {
		return func() error { return unix.Unmount(target, unix.MNT_DETACH) }
	}
	return []trial{
		{"a tmpfs", mount("tmpfs", "/tmp", "tmpfs", 0), noPermission},
		{"a proc", mount("proc", "/tmp", "proc", 0), noPermission},
		{"a disk", mount("/dev/vda", "/tmp", "ext4", 0), noPermission},
		{"bind over", mount("/tmp", "/usr", "", unix.MS_BIND), noPermission},
		{"make /usr writable", mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND), noPermission},
		{"allow set-user-id again", mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND), noPermission},
		{"uncover /proc/interrupts", unmount("/proc/interrupts"), noPermission},
		{"uncover /proc/sys", unmount("/proc/sys"), noPermission},
		{"unmount /proc", unmount("/proc"), noPermission},
		{"unmount /usr", unmount("/usr"), noPermission},
		{"pivot_root", func() error { return unix.PivotRoot("/tmp", "/tmp") }, noPermission},
		{"clone a mount", func() error { return calledOpenTree("/usr") }, noPermission},
		{"set attributes", func() error { return unix.MountSetattr(unix.AT_FDCWD, "/usr", 0, &unix.MountAttr{}) }, noPermission},
		{"a new mount", func() error { _, err := unix.Fsopen("tmpfs", 0); return err }, noPermission},
	}
}

func calledOpenTree(path string) error {
	_, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE)
	return err
}

// procTrials read and write what /proc has of the whole machine.
func procTrials(facts) []trial {
	var list []trial
	for _, name := range []string{"interrupts", "kcore", "keys", "kmsg", "kpagecount", "kpageflags", "pagetypeinfo", "sched_debug",
		"slabinfo", "timer_list", "vmallocinfo"} {
		list = append(list, trial{"read " + name, func() error { return yields("/proc/" + name) }, nil})
	}
	for _, name := range []string{"iomem", "ioports", "kallsyms"} {
		list = append(list, trial{"addresses of " + name, func() error { return hasAddresses("/proc/" + name) }, nil})
	}
	for _, name := range []string{"acpi", "asound", "bus", "fs", "irq", "scsi"} {
		list = append(list, trial{"list " + name, func() error { return lists("/proc/" + name) }, nil})
	}
	for _, w := range [][2]string{{"sysrq-trigger", "h"}, {"sys/kernel/core_pattern", "|/tmp/x"}, {"sys/kernel/hostname", "x"},
		{"sys/kernel/modprobe", "/tmp/x"}, {"sys/vm/drop_caches", "1"}, {"sys/kernel/ns_last_pid", "1"}, {"sys/user/max_user_namespaces", "9"},
		{"sys/net/ipv4/ip_forward", "1"}, {"sys/kernel/shmmax", "1"}, {"sys/fs/mqueue/msg_max", "1"}, {"irq/default_smp_affinity", "1"},
		{"self/uid_map", "0 0 1"}, {"self/gid_map", "0 0 1"}, {"self/setgroups", "allow"}} {
		list = append(list, trial{"write " + w[0], func() error { return writes("/proc/"+w[0], unchanged("/proc/"+w[0], w[1])) }, nil})
	}
	return list
}

// unchanged is what a setting of the whole host is already: a cell that is weak on purpose
// must not change this host by writing to it. What cannot be read is text.
func unchanged(path, text string) string {
	if !strings.HasPrefix(path, "/proc/sys/") && !strings.HasPrefix(path, "/proc/irq/") {
		return text
	}
	if now, err := os.ReadFile(path); err == nil && len(now) > 0 {
		return string(now)
	}
	return text
}

// hasAddresses passes if a line begins with a number that is not zero. The
// kernel shows zeros to those who may read the names only.
func hasAddresses(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(content)) {
		if first, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.Trim(first, "0-") != "" {
			return nil
		}
	}
	return errHeld
}

func lists(dir string) error {
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) == 0 {
		err = errHeld
	}
	return err
}

// address is that of the first byte, for a raw call.
func address(b *byte) uintptr { return uintptr(unsafe.Pointer(b)) }
