package incus

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"aether/driver/command"
	"aether/driver/guestagent"
	"aether/image"
	"aether/sandbox"
)

const (
	// socketPath is where the guest service listens: in a file system in memory
	// that no other container sees.
	socketPath = "/dev/.aether-socket"

	maxHostname = 63
	cpuPeriod   = 100 // milliseconds
	maxPids     = 4 << 20
	// defaultShared is the size of /dev/shm.
	defaultShared = 64 << 20
)

// hidden are files that tell about the host: they are covered by nothing.
var hidden = []string{"proc/kcore", "proc/keys", "proc/latency_stats", "proc/timer_list", "proc/interrupts", "proc/sched_debug"}

// creation is what the daemon is told to make.
type creation struct {
	Name     string                       `json:"name"`
	Type     string                       `json:"type"`
	Profiles []string                     `json:"profiles"`
	Config   map[string]string            `json:"config"`
	Devices  map[string]map[string]string `json:"devices"`
	Source   map[string]string            `json:"source"`
}

// container is everything that the daemon is told of a sandbox, except for its
// image. No profile has a say in it, and without network devices it has no network.
func (e *engine) container(spec sandbox.Spec, root image.Root) (creation, error) {
	devices, err := e.devices(spec, root)
	if err != nil {
		return creation{}, err
	}
	config := map[string]string{
		ownerKey: e.Owner.Label, idKey: spec.ID,
		"security.privileged": "false",
		"security.nesting":    "false",
		"security.guestapi":   "false",
		// User ids that no other container has.
		"security.idmap.isolated": "true",
		// A daemon that starts would start what ran before.
		"boot.autostart": "false",
		"raw.lxc":        e.raw(spec),
		// In the place of the daemon's list of what is forbidden.
		"raw.seccomp": command.LXCFilter(),
	}
	limit(config, spec.Limits)
	return creation{Type: "container", Profiles: []string{}, Config: config, Devices: devices}, nil
}

// limit adds the limits, and defaults.
func limit(config map[string]string, l sandbox.Limits) {
	config["limits.memory"], config["limits.memory.enforce"], config["limits.memory.swap"] = "50%", "hard", "false"
	if l.MemoryBytes > 0 {
		config["limits.memory"] = strconv.FormatInt(l.MemoryBytes, 10)
	}
	if l.CPUs > 0 {
		config["limits.cpu.allowance"] = fmt.Sprintf("%dms/%dms", int64(math.Ceil(l.CPUs*cpuPeriod)), cpuPeriod)
	}
	pids := l.Processes
	if pids == 0 {
		pids = guestagent.DefaultProcesses
	}
	config["limits.processes"] = strconv.FormatInt(min(pids+guestagent.Overhead, maxPids), 10)
}

// raw is what the daemon has no words for, in LXC's. The two lists that are
// set to nothing first are the daemon's own.
func (e *engine) raw(spec sandbox.Spec) string {
	var text strings.Builder
	set := func(key, format string, args ...any) { fmt.Fprintf(&text, "lxc."+key+" = "+format+"\n", args...) }
	set("init.cmd", "%s -channel unix:%s", command.GuestPath, socketPath)
	set("uts.name", "%s", spec.ID[:min(len(spec.ID), maxHostname)])
	set("no_new_privs", "1")
	set("cap.drop", "")
	for _, c := range command.Capabilities {
		set("cap.keep", "%s", strings.ToLower(strings.TrimPrefix(c, "CAP_")))
	}
	set("mount.auto", "")
	set("mount.auto", "proc:mixed sys:ro")
	set("mount.entry", "tmpfs dev/shm tmpfs nosuid,nodev,mode=1777,size=%d,create=dir 0 0", sharedSize(spec.Limits))
	for _, file := range hidden {
		set("mount.entry", "/dev/null %s none bind,optional,ro 0 0", file)
	}
	// It runs in the container's network, before the container's files are in its
	// place.
	set("hook.mount", "%s link set dev lo up", e.host.ip)
	return text.String()
}

func sharedSize(l sandbox.Limits) int64 {
	if l.DiskBytes == 0 {
		return defaultShared
	}
	return min(l.DiskBytes, defaultShared)
}

// devices are the root, the image's read-only directories, what the caller asked
// for, and the guest service.
func (e *engine) devices(spec sandbox.Spec, root image.Root) (map[string]map[string]string, error) {
	list := map[string]map[string]string{"root": {"type": "disk", "path": "/", "pool": e.host.pool.Name}}
	if spec.Limits.DiskBytes > 0 {
		list["root"]["size"] = strconv.FormatInt(spec.Limits.DiskBytes, 10)
	}
	for n, b := range root.Binds {
		list[fmt.Sprintf("image%d", n)] = show(b.Source, b.Target, false)
	}
	for n, m := range spec.Mounts {
		if _, err := os.Stat(m.Source); err != nil {
			return nil, sandbox.Invalidf("mounts", "%v", err)
		}
		list[fmt.Sprintf("mount%d", n)] = show(m.Source, m.Target, m.Writable)
	}
	list["guest"] = show(e.host.guest, command.GuestPath, false)
	return list, nil
}

// show is a path of the host, whose files belong inside to whom they belong
// outside. Other mounts below it are not shown: they would not be read-only.
func show(source, target string, writable bool) map[string]string {
	return map[string]string{"type": "disk", "source": source, "path": target, "shift": "true", "readonly": strconv.FormatBool(!writable)}
}
