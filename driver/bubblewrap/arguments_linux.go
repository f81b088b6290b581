package bubblewrap

import (
	"strconv"

	"aether/sandbox"
)

// filterFd is where bwrap reads the system call filter.
const filterFd = 3

// guestPath is where the guest service's program is shown: among the devices,
// where no image has files.
const guestPath = "/dev/.aether-guest"

// capabilities are what the guest service needs to run commands and keep files of
// any user of the sandbox, and to find (SYS_PTRACE: in /proc) what a command has
// started. They reach no further than its user namespace.
var capabilities = []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_SYS_PTRACE"}

// arguments is the whole command line.
func (e *engine) arguments(spec sandbox.Spec) []string {
	args := []string{"bwrap", "--die-with-parent", "--new-session", "--as-pid-1",
		"--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--hostname", spec.ID,
		"--bind", e.host.Root(), "/", "--proc", "/proc", "--dev", "/dev",
		"--bind", e.host.Shared(), "/dev/shm", "--ro-bind", e.host.Shown(0), guestPath, "--remount-ro", "/dev",
		"--chdir", "/", "--seccomp", strconv.Itoa(filterFd)}
	if spec.Network.Mode == sandbox.NoNetwork {
		args = append(args, "--unshare-net")
	}
	args = append(args, e.identity()...)
	return append(args, "--", guestPath, "-channel", "stdio")
}

// identity is who the guest service is. Run by root it stays the root of the user
// namespace that it is in, with few capabilities; run by an ordinary user it is
// that one user, in one more namespace, without any.
func (e *engine) identity() []string {
	args := []string{"--cap-drop", "ALL"}
	if e.host.Single {
		id := strconv.Itoa(userID)
		return append(args, "--unshare-user", "--uid", id, "--gid", id)
	}
	for _, c := range capabilities {
		args = append(args, "--cap-add", c)
	}
	return args
}
