// Package unshare is a driver made of programs that every Linux host has: unshare,
// setpriv and chroot make of a stage of driver/command a sandbox, as docs/adding-a-driver.md
// explains line by line. It is an example: it has no system call filter, which the
// drivers of driver/all have.
package unshare

import (
	"context"
	"os/exec"
	"strings"

	"aether/driver/command"
	"aether/sandbox"
)

// Name is what the driver is known by.
const Name = "unshare"

// New makes the driver.
func New(opts command.Options) *command.Driver { return command.New(system(), opts) }

func system() command.System {
	return command.System{
		Name: Name, Program: "unshare", Install: "install the package util-linux",
		Needs:         needs,
		NoHostNetwork: "without a system call filter nothing bounds what is done with the host's network",
		Version: func(ctx context.Context, path string) (string, error) {
			line, err := command.FirstLine(ctx, path, "--version")
			return strings.TrimPrefix(line, "unshare from "), err
		},
		Command: invoke,
	}
}

// tools are the programs beside unshare, and the packages that have them.
var tools = []struct{ program, pack string }{
	{"setpriv", "util-linux"}, {"chroot", "coreutils"}, {"hostname", "hostname"}, {"ip", "iproute2"},
}

// needs is asked before anything is tried, so that Probe names what is missing.
func needs() error {
	for _, tool := range tools {
		if _, err := exec.LookPath(tool.program); err != nil {
			return &sandbox.Error{Class: sandbox.Unavailable, Reason: "the program " + tool.program + " is not in PATH",
				Remedy: "install the package " + tool.pack, Err: err}
		}
	}
	return command.NeedsRoot("this example has no place for the one id of an ordinary user", "run as root, or use bubblewrap")()
}

// invoke says what is run on a stage. What the caller chose, the id, is an argument
// and never a part of a script.
func invoke(s command.Stage, spec sandbox.Spec) (command.Command, error) {
	args := []string{"unshare", "--ipc", "--uts", "--net", "--cgroup", "sh", "-ec", enter, "sh", spec.ID,
		"setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set=" + bounding(), "chroot", "."}
	return command.Command{
		Args:    append(args, command.GuestArgs...),
		Prepare: prepare,
		Env:     []string{"STAGE_ROOT=" + s.Root, "STAGE_SHARED=" + s.Shared, "STAGE_GUEST=" + s.Guest},
	}, nil
}

// prepare fills the root and puts it over everything else of the mount namespace,
// which chroot alone would leave within reach of a root inside. No further user
// namespace can be made: in one, anybody could mount.
const prepare = `echo 0 >/proc/sys/user/max_user_namespaces
cd "$STAGE_ROOT"
mount -t proc -o nosuid,nodev,noexec proc proc
mount -t tmpfs -o nosuid,size=64k,mode=755 tmpfs dev
mkdir dev/pts dev/shm
for name in null zero full random urandom tty; do
	: >dev/$name
	mount --bind /dev/$name dev/$name
done
: >dev/.aether-guest
mount --bind "$STAGE_GUEST" dev/.aether-guest
mount --bind "$STAGE_SHARED" dev/shm
mount -t devpts -o nosuid,noexec,newinstance,ptmxmode=0666,mode=620 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -o remount,bind,ro dev
mount -n --move . /
unset STAGE_ROOT STAGE_SHARED STAGE_GUEST`

// enter is run in the new namespaces, with the tools of the host.
const enter = `hostname "$1"
shift
ip link set lo up
exec "$@"`

// bounding is what a root inside may have at most: what the guest service needs,
// and the right to chroot, by which the service comes inside.
func bounding() string {
	list := []string{"-all", "+sys_chroot"}
	for _, c := range command.Capabilities {
		list = append(list, "+"+strings.ToLower(strings.TrimPrefix(c, "CAP_")))
	}
	return strings.Join(list, ",")
}
