package gvisor

import (
	"fmt"
	"path"

	"github.com/opencontainers/runtime-spec/specs-go"

	"aether/driver/command"
	"aether/sandbox"
)

// config is the bundle's. There is no system call filter in it: calls are
// answered by gVisor's kernel, which has one of its own towards the host.
func config(s command.Stage, spec sandbox.Spec, hostname string) *specs.Spec {
	process := &specs.Process{Args: guestArgs(spec.Limits), Cwd: "/", NoNewPrivileges: true,
		Capabilities: command.OCICapabilities(command.Capabilities), Rlimits: rlimits(spec.Limits)}
	return &specs.Spec{Version: command.OCIVersion, Root: &specs.Root{Path: s.Root}, Hostname: hostname, Process: process,
		Mounts: mounts(s, spec), Linux: &specs.Linux{Namespaces: namespaces(spec)}}
}

// namespaces are those of gVisor's kernel on the host. That of the network is runsc's own,
// with the device that is to be the sandbox's.
func namespaces(spec sandbox.Spec) []specs.LinuxNamespace {
	list := command.OCINamespaces(spec)
	for i := range list {
		if list[i].Type == specs.NetworkNamespace {
			list[i].Path = "/proc/self/ns/net"
		}
	}
	return list
}

func mounts(s command.Stage, spec sandbox.Spec) []specs.Mount {
	list := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=1777", fmt.Sprintf("size=%d", sharedBytes(spec.Limits))}},
		{Destination: command.GuestPath, Type: "bind", Source: s.Guest, Options: []string{"bind", "nosuid", "nodev", "ro"}},
		// Without a mount of any kind named here gVisor puts a file system of its
		// own over an empty /tmp, which would not count as written. It passes over
		// kinds that it does not know.
		{Destination: "/tmp", Type: "aether", Source: "aether"},
	}
	for i, m := range spec.Mounts {
		mode := "ro"
		if m.Writable {
			mode = "rw"
		}
		list = append(list, specs.Mount{Destination: path.Clean(m.Target), Type: "bind", Source: s.Mounts[i], Options: []string{"bind", "nosuid", "nodev", mode}})
	}
	return list
}
