package oci

import (
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"aether/driver/command"
	"aether/sandbox"
)

// config is the bundle's. Limits are not in it: the whole runtime is in a cgroup
// that holds them.
func config(s command.Stage, spec sandbox.Spec) *specs.Spec {
	linux := command.OCILinux(spec)
	// The runtime is in the sandbox's network namespace already.
	linux.Namespaces = slices.DeleteFunc(linux.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == specs.NetworkNamespace })
	process := &specs.Process{Args: command.GuestArgs, Cwd: "/", NoNewPrivileges: true, Capabilities: command.OCICapabilities(command.Capabilities)}
	if s.Single {
		// One more user namespace, in which the caller is no root.
		one := []specs.LinuxIDMapping{{ContainerID: command.UserID, HostID: 0, Size: 1}}
		linux.Namespaces = append(linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
		linux.UIDMappings, linux.GIDMappings = one, one
		process.User = specs.User{UID: command.UserID, GID: command.UserID}
		process.Capabilities = command.OCICapabilities(nil)
	}
	return &specs.Spec{Version: command.OCIVersion, Root: &specs.Root{Path: s.Root}, Hostname: spec.ID, Process: process, Mounts: mounts(s), Linux: linux}
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
