package unprivtest

import (
	"os/exec"
	"testing"
)

// withoutRightsVariable is set for tests that AsRootWithoutRights runs.
const withoutRightsVariable = "AETHER_UNPRIV_TEST_ROOT"

// contained are the capabilities that container engines leave to root. Without
// CAP_SYS_ADMIN nobody can have ids but one, or control groups.
const contained = "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service,+net_raw," +
	"+sys_chroot,+mknod,+audit_write,+setfcap"

// withoutRights hides the control groups, as containers mostly have none that they
// can write, and executes the program with what is left.
const withoutRights = `mount -t tmpfs -o ro none /sys/fs/cgroup && exec setpriv --bounding-set="$0" --inh-caps=-all -- "$@"`

// AsRootWithoutRights is AsOrdinaryUser for the root of a container: user 0 with
// the few capabilities that are usual there.
func AsRootWithoutRights(t *testing.T, flags []string, env ...string) {
	t.Helper()
	if !Privileged() {
		t.Skip("these tests run without the rights of root already")
	}
	for _, tool := range []string{"unshare", "setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("this host has no %s", tool)
		}
	}
	again(t, "root without rights", 0, flags, env, func(program string, flags []string) *exec.Cmd {
		cmd := exec.Command("unshare", append([]string{"--mount", "sh", "-c", withoutRights, contained, program}, flags...)...)
		cmd.Env = []string{withoutRightsVariable + "=1"}
		return cmd
	})
}
