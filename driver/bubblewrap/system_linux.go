package bubblewrap

import (
	"context"
	"strconv"
	"strings"

	"aether/driver/launched"
	"aether/host/seccomp"
	"aether/sandbox"
)

func system() launched.System {
	return launched.System{
		Name: Name, Program: "bwrap", Install: "install the package bubblewrap", Plain: true,
		Version: func(ctx context.Context, path string) (string, error) {
			line, err := launched.FirstLine(ctx, path, "--version")
			return strings.TrimPrefix(line, "bubblewrap "), err
		},
		Command: command,
	}
}

// command has bwrap read the system call filter as its configuration.
func command(s launched.Stage, spec sandbox.Spec) (launched.Command, error) {
	filter, err := seccomp.Bytes()
	args := []string{"bwrap", "--die-with-parent", "--new-session", "--as-pid-1",
		"--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--hostname", spec.ID,
		"--bind", s.Root, "/", "--proc", "/proc", "--dev", "/dev",
		"--bind", s.Shared, "/dev/shm", "--ro-bind", s.Guest, launched.GuestPath, "--remount-ro", "/dev",
		"--chdir", "/", "--seccomp", strconv.Itoa(launched.ConfigFd)}
	if spec.Network.Mode == sandbox.NoNetwork {
		args = append(args, "--unshare-net")
	}
	args = append(append(args, identity(s.Single)...), "--")
	return launched.Command{Args: append(args, launched.GuestArgs...), Config: filter}, err
}

// identity is who the guest service is. Run by root it stays the root of the user
// namespace that it is in, with few capabilities; run by an ordinary user it is
// that one user, in one more namespace, without any.
func identity(single bool) []string {
	args := []string{"--cap-drop", "ALL"}
	if single {
		id := strconv.Itoa(launched.UserID)
		return append(args, "--unshare-user", "--uid", id, "--gid", id)
	}
	for _, c := range launched.Capabilities {
		args = append(args, "--cap-add", c)
	}
	return args
}
