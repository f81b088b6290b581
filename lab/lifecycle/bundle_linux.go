package lifecycle

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// Bounds of every sandbox that can have them; a cell's own defaults are alike.
const (
	memoryLimit  = 1 << 30
	processLimit = 4096
)

// Ids of a container are high ids of the host that own nothing, as a cell's are.
const (
	idBase  = 0x6fff0000
	idCount = 1 << 16
)

type object = map[string]any

// writeBundle makes a bundle whose container has what a cell has: its
// namespaces, its mounts, its limits, no capabilities and no new privileges. It
// has no system call filter and no writable layer, which a cell has.
func writeBundle(dir, root, program string) (string, error) {
	config := object{
		"ociVersion": "1.0.0",
		"hostname":   "bench",
		"root":       object{"path": root, "readonly": true},
		"process": object{
			"user": object{"uid": 0, "gid": 0}, "args": []string{program}, "env": []string{"PATH=/"}, "cwd": "/",
			"noNewPrivileges": true, "capabilities": object{},
		},
		"mounts": bundleMounts(),
		"linux":  bundleLinux(),
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644)
}

func bundleMounts() []object {
	mount := func(target, kind string, options ...string) object {
		return object{"destination": target, "type": kind, "source": kind, "options": options}
	}
	return []object{
		mount("/proc", "proc", "nosuid", "noexec", "nodev"),
		mount("/dev", "tmpfs", "nosuid", "mode=755", "size=64k"),
		mount("/dev/pts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"),
		mount("/dev/shm", "tmpfs", "nosuid", "noexec", "nodev", "mode=1777", "size=64m"),
	}
}

func bundleLinux() object {
	var namespaces []object
	for _, kind := range []string{"user", "pid", "mount", "network", "ipc", "uts", "cgroup"} {
		namespaces = append(namespaces, object{"type": kind})
	}
	ids := []object{{"containerID": 0, "hostID": idBase, "size": idCount}}
	return object{
		"namespaces": namespaces, "uidMappings": ids, "gidMappings": ids,
		"resources":     object{"memory": object{"limit": memoryLimit}, "pids": object{"limit": processLimit}},
		"maskedPaths":   []string{"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/scsi", "/proc/timer_list"},
		"readonlyPaths": []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
	}
}
