package nspawn

import (
	"path/filepath"
	"strings"

	"aether/driver/command"
)

// dropped are the capabilities that nspawn leaves to a container unless told not
// to, but for command.Capabilities and those that were never there.
var dropped = []string{
	"CAP_AUDIT_CONTROL", "CAP_AUDIT_WRITE", "CAP_DAC_READ_SEARCH", "CAP_IPC_OWNER", "CAP_LEASE", "CAP_LINUX_IMMUTABLE",
	"CAP_MKNOD", "CAP_NET_ADMIN", "CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETPCAP",
	"CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_CHROOT", "CAP_SYS_NICE", "CAP_SYS_RESOURCE", "CAP_SYS_TTY_CONFIG",
}

// arguments is the whole command line. The guest service is an init, so that it
// needs none above it.
func arguments(s command.Stage, id string) []string {
	args := []string{s.Program, "--quiet", "--register=no", "--keep-unit", "--network-namespace-path=/proc/self/ns/net", "--directory=" + s.Root,
		"--console=pipe", "--hostname=" + hostname(id), "--link-journal=no", "--resolv-conf=off", "--timezone=off",
		"--no-new-privileges=yes", "--drop-capability=" + strings.Join(dropped, ","), "--capability=CAP_SYS_PTRACE",
		"--system-call-filter=~" + strings.Join(append(command.Refused(), "io_setup"), " "),
		"--bind=" + s.Shared + ":/dev/shm", "--bind-ro=" + s.Guest + ":" + command.GuestPath, "--bind=" + filepath.Join(s.Dir, runDir) + ":/run", "--"}
	return append(args, command.GuestArgs...)
}

// hostname is an id as host names are: they do not end with a dash.
func hostname(id string) string { return strings.TrimRight(id, "-") }
