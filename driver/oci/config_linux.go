package oci

import (
	"github.com/opencontainers/runtime-spec/specs-go"

	"aether/driver/command"
	"aether/sandbox"
)

// version is the oldest of the specification that has all that is asked for.
const version = "1.0.2"

// hidden are files that tell about or act on the host, as all container engines
// hide them.
var hidden = []string{
	"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",
	"/proc/timer_list", "/proc/timer_stats", "/proc/interrupts",
}

// fixed are parts of /proc that may be read only.
var fixed = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}

// config is the bundle's. Limits are not in it: the whole runtime is in a cgroup
// that holds them.
func config(s command.Stage, spec sandbox.Spec) *specs.Spec {
	linux := &specs.Linux{Namespaces: namespaces(spec), Seccomp: command.OCIFilter(), MaskedPaths: hidden, ReadonlyPaths: fixed}
	process := &specs.Process{Args: command.GuestArgs, Cwd: "/", NoNewPrivileges: true, Capabilities: capabilities(command.Capabilities)}
	if s.Single {
		// One more user namespace, in which the caller is no root.
		one := []specs.LinuxIDMapping{{ContainerID: command.UserID, HostID: 0, Size: 1}}
		linux.Namespaces = append(linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
		linux.UIDMappings, linux.GIDMappings = one, one
		process.User = specs.User{UID: command.UserID, GID: command.UserID}
		process.Capabilities = capabilities(nil)
	}
	return &specs.Spec{Version: version, Root: &specs.Root{Path: s.Root}, Hostname: spec.ID, Process: process, Mounts: mounts(s), Linux: linux}
}

func namespaces(spec sandbox.Spec) (list []specs.LinuxNamespace) {
	kinds := []specs.LinuxNamespaceType{specs.PIDNamespace, specs.MountNamespace, specs.IPCNamespace, specs.UTSNamespace, specs.CgroupNamespace}
	if spec.Network.Mode == sandbox.NoNetwork {
		kinds = append(kinds, specs.NetworkNamespace)
	}
	for _, kind := range kinds {
		list = append(list, specs.LinuxNamespace{Type: kind})
	}
	return list
}

// capabilities are the same in every set but the ambient one, so that users inside
// other than root have none.
func capabilities(list []string) *specs.LinuxCapabilities {
	return &specs.LinuxCapabilities{Bounding: list, Effective: list, Permitted: list}
}

func mounts(s command.Stage) []specs.Mount {
	return []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "noexec", "strictatime", "ro", "mode=755", "size=64k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
		{Destination: "/dev/shm", Type: "bind", Source: s.Shared, Options: []string{"bind", "nosuid", "nodev", "rw"}},
		{Destination: command.GuestPath, Type: "bind", Source: s.Guest, Options: []string{"bind", "nosuid", "nodev", "ro"}},
	}
}
