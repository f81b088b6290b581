package bubblewrap

import (
	"context"
	"strconv"
	"strings"

	"aether/driver/command"
	"aether/internal/host/seccomp"
	"aether/sandbox"
)

func system() command.System {
	return command.System{
		Name: Name, Program: "bwrap", Install: "install the package bubblewrap", Plain: true, OwnNetwork: true,
		Version: func(ctx context.Context, path string) (string, error) {
			line, err := command.FirstLine(ctx, path, "--version")
			return strings.TrimPrefix(line, "bubblewrap "), err
		},
		Command: invoke,
	}
}

// invoke has bwrap read the system call filter as its configuration.
func invoke(s command.Stage, spec sandbox.Spec) (command.Command, error) {
	filter, err := seccomp.Bytes()
	args := []string{"bwrap", "--die-with-parent", "--new-session", "--as-pid-1",
		"--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--hostname", spec.ID,
		"--bind", s.Root, "/", "--proc", "/proc", "--dev", "/dev",
		"--bind", s.Shared, "/dev/shm", "--ro-bind", s.Guest, command.GuestPath, "--remount-ro", "/dev",
		"--chdir", "/", "--seccomp", strconv.Itoa(command.ConfigFd)}
	args = append(append(args, identity(s.Single)...), "--")
	return command.Command{Args: append(args, command.GuestArgs...), Config: filter}, err
}

// identity is who the guest service is. Run by root it stays the root of the user
// namespace that it is in, with few capabilities; run by an ordinary user it is
// that one user, in one more namespace, without any.
func identity(single bool) []string {
	args := []string{"--cap-drop", "ALL"}
	if single {
		id := strconv.Itoa(command.UserID)
		return append(args, "--unshare-user", "--uid", id, "--gid", id)
	}
	for _, c := range command.Capabilities {
		args = append(args, "--cap-add", c)
	}
	return args
}
