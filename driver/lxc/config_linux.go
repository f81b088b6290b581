package lxc

import (
	"fmt"
	"path/filepath"
	"strings"

	"aether/driver/command"
	"aether/sandbox"
)

// hidden are files that tell about the host: they are covered by nothing.
var hidden = []string{"proc/kcore", "proc/keys", "proc/latency_stats", "proc/timer_list", "proc/interrupts", "proc/sched_debug"}

// fixed are parts of /proc that may be read only, beside those that LXC fixes.
var fixed = []string{"proc/bus", "proc/fs", "proc/irq"}

// config is the container's: lines of a key and a value. Limits are not in it: the
// whole of lxc-start is in a cgroup that holds them.
func config(s command.Stage, spec sandbox.Spec) string {
	var text strings.Builder
	set := func(key, format string, args ...any) { fmt.Fprintf(&text, "lxc."+key+" = "+format+"\n", args...) }
	set("rootfs.path", "dir:%s", s.Root)
	set("rootfs.mount", "%s", filepath.Join(s.Dir, mountDir))
	set("uts.name", "%s", spec.ID)
	set("namespace.share.net", "%s", filepath.Join(s.Dir, networkFile))
	set("console.path", "none")
	set("tty.max", "0")
	set("pty.max", "1024")
	set("autodev", "1")
	set("autodev.tmpfs.size", "65536")
	set("mount.auto", "proc:mixed")
	for _, entry := range entries(s) {
		set("mount.entry", "%s 0 0", entry)
	}
	set("no_new_privs", "1")
	set("seccomp.profile", "%s", filepath.Join(s.Dir, filterFile))
	set("apparmor.profile", "unchanged")
	for _, c := range command.Capabilities {
		set("cap.keep", "%s", strings.ToLower(strings.TrimPrefix(c, "CAP_")))
	}
	set("init.cmd", "%s", strings.Join(command.GuestArgs, " "))
	return text.String()
}

// entries are mounts as fstab has them.
func entries(s command.Stage) []string {
	list := []string{
		s.Shared + " dev/shm none bind,create=dir,nosuid,nodev",
		s.Guest + " " + strings.TrimPrefix(command.GuestPath, "/") + " none bind,create=file,ro,nosuid,nodev",
	}
	for _, file := range hidden {
		list = append(list, "/dev/null "+file+" none bind,optional,ro")
	}
	for _, dir := range fixed {
		list = append(list, dir+" "+dir+" none bind,optional,ro,relative")
	}
	return list
}
